// Package front runs the process that stands between a gateway and a server that may be replaced: one that hibernates, is
// started again after a crash, or not before it is needed.
//
// A front owns the client's streams and remembers the conversation (internal/relay). Behind it stands a backend, which is
// an ordinary session of its own: run as a child, over pipes. There may be none. The loss of a backend is one event,
// whatever the reason. The calls that were open get errors, the next message starts another backend, and the conversation
// is restored there.
//
// A front ends nothing by itself but its backend's anchor. What the server started is the backend's, which watches the
// gateway as well: a front that is killed, or stopped, leaves nothing.
//
// What you may touch: phase.go is the whole policy of replacing a server, and tests try every cell of it, so begin there. What is
// due without input is a field in clock.go, and has its place in due and onTime. Nothing else here may wait.
package front
