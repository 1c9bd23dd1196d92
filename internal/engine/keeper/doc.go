// Package keeper is a session's side of a container engine. It listens where the session's clients look for the engine,
// stands between them and it, and remembers the ids of what they create. At the session's end it removes that, as package
// engine proves it.
//
// It serves one request a connection. To a create it adds our labels, and it sees the id before the client learns it. A create
// that cannot be labelled is refused: no later look could find what it makes. All else passes unread in both directions, each
// of which ends by itself, with a head that tells the engine to read no further request.
//
// What a request does is decided in route.go alone, and what is changed in a create in labels.go and mounts.go. Nothing here
// decides what is a session's: that is package engine's Owner.
//
// Until a client connects, a Keeper is a listening socket that its owner polls, and nothing else. From then on goroutines
// serve the clients.
package keeper
