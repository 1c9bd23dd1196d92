// Package keeper is a session's side of a container engine. It listens where the session's clients look for the engine,
// serves them through the proxy (package engine/proxy), and remembers the ids of what they create. At the session's end it
// removes that, as package engine proves it.
//
// Until a client connects, a Keeper is a listening socket that its owner polls, and nothing else. From then on goroutines
// serve the clients.
package keeper
