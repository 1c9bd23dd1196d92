// Package proxy stands between the clients of one session and their container engine.
//
// It serves one request a connection. To a create it adds our labels, and it sees the id before the client learns it. A create
// that cannot be labelled is refused: no later look could find what it makes. All else passes unread in both directions, each
// of which ends by itself, with a head that tells the engine to read no further request.
package proxy
