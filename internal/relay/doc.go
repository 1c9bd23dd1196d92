// Package relay passes lines between a client and one server after another. The client does not notice that the server is replaced.
//
// A Peer is one side: what it says comes in whole lines, and lines wait for it until it reads. A Relay is two of them with a mux
// between, which says which line goes where. Lines that pass stay byte for byte.
//
// The package starts no process and keeps no time limits. It never waits, except for a slow client in Flush. Its caller
// polls the descriptors that Polls names, calls Move, and acts on the events that Move returns.
//
// What you may touch: what a message means is decided in package mux, and what follows in the caller, so a change here is about
// bytes. No stream may block, and none that others have open may be given O_NONBLOCK (stream.go).
package relay
