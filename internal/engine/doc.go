// Package engine speaks with container engines: where one listens, what its API says, and which of its objects belong to
// a session.
//
// A container is not a descendant of the client that asked for it, so no signal to that client ends it. The session's
// clients reach the engine through the proxy in package keeper, which labels what they create and sees its id. An
// Owner tells, without I/O, which objects are the session's: by the label, and by an id or time that no copy has. Remove
// ends those, and is the only place that stops or removes an object.
//
// A request is a function of Client. Whatever decides that an object is a session's belongs into Owner, and is told there why.
//
// The engine's SDK for Go would more than double the binary, so the client is a few requests. It and the proxy read HTTP/1.1 here
// (http_head.go, http_body.go), more strictly than the engines do: no client needs what two may read differently.
package engine
