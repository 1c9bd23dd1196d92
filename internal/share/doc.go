// Package share has many sessions talk to one server (run --share).
//
// The process that a gateway starts is a front. It finds the host of its key, or starts it, hands it pipes in the place of a
// server's, and waits. The host is one process for each key. It belongs to no client: it is detached, and ends with the
// gateway, or when no front has been attached for some time. Its server is that of an ordinary session, which is the
// host's child and has the host as its gateway. What goes where is decided in package mux.
//
// A host is there for one start of its server: when the server ends, the host passes on what it has written, and is over. It
// keeps nothing for the time after its death. The fronts know what a next server must be told, and greet it.
//
// What you may touch: front and host are of one program file, which is part of the key, so wire.go may change freely. Whatever a
// server inherits or could tell sessions apart by must be in identity.go, or two sessions share that should not.
package share
