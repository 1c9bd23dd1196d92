// Package proxy stands between the clients of one session and their container engine.
//
// It adds our labels to what the clients create, and notes every id before the client learns it. Everything else passes
// unchanged, byte for byte. A create that cannot be labelled is refused. An engine that reads more leniently than we do
// would make a container that no later look could find.
//
// A reverse proxy of net/http could not hand over a hijacked connection with a half-close. So a link copies bytes, and
// package http1 finds where heads and bodies end.
package proxy
