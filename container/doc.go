// Package container knows container engines: where one listens, what its HTTP API says, and how to stand between it and
// its clients.
//
// A container is no descendant of the client that asked for it, so no signal to that client ends it. What ties it to a
// session is the Proxy: the session's clients reach the engine through it, it adds our labels to what they create, and
// it notes every id before the client learns it. Everything else passes unchanged, byte for byte.
//
// The engine's SDK for Go would more than double the binary, and a reverse proxy of net/http cannot hand over a hijacked
// stream with a half-close. So this package reads HTTP/1.1 itself, as far as it must: heads, and where a body ends.
package container
