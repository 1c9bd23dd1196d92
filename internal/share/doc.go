// Package share has many sessions talk to one server (run --share).
//
// The process that a gateway starts is an attached one: it has no server. It finds the host of its key, or starts it, hands
// over its streams, and waits. The host is one process for each key. It belongs to no client: it is detached, and ends with
// the gateway, or when no session has been attached for some time. Its server is that of an ordinary session, which is the
// host's child and has the host as its gateway. What goes where is decided in package mux.
//
// A host may be killed at any moment. What the next one must know of a client is in its notes, memory that the attached
// process keeps. The notes hold what was read and not acted upon, which requests are open, and whether a line has begun
// on standard output.
package share
