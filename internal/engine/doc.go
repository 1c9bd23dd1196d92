// Package engine speaks with container engines: where one listens, what its API says, and which of its objects belong to
// a session.
//
// A container is not a descendant of the client that asked for it, so no signal to that client ends it. The session's
// clients reach the engine through the proxy (package engine/proxy), which labels what they create and makes a Note of
// every id. A Ledger adds the notes up. A Claim tells, without I/O, which objects the notes and labels prove to be the
// session's; Claim.End removes those. removal.go is the only place that stops or removes an object. It inspects each
// container once more before it does so.
//
// The engine's SDK for Go would more than double the binary, so the client is a few requests over package http1.
package engine
