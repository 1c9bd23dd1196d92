// Package mux keeps what clients want of a server that knows of one client only, and compares it with what the server was told.
// So many clients can talk to one server, and a client that is alone can go on with one server after another. The mux gets every
// line that comes from a client or from the server, and says which lines go where. It does no input or output, and starts nothing;
// of the time it asks only how long an answer may be kept.
//
// Requests of clients get ids and progress tokens of the mux's own, so those of two clients never meet. What comes back
// under such an id goes to the client that asked, and to no other. What a server keeps for its one client is kept here
// for each: the log level, subscriptions, tasks. The first client's handshake is the server's. A later client that asks
// for the same is answered from its result; any other gets an error, so let only clients share that begin alike.
//
// A request of the server goes to the client whose task it names, or to the only client that the server has ever had. Otherwise
// the server gets an error, because it may come from background work of anybody's call.
//
// Up to 2025-11-25 there is one handshake for the life of the server's process; from 2026-07-28 on there is none. An
// initialize binds a server that supports both for the life of its process (2026-07-28, basic/versioning). So one
// server has clients of one kind only. What needs no handshake is called modern here.
//
// For another server (ServerGone, ServerStarted) what was told is cleared. Open calls get errors, the handshake is repeated, and then
// what clients want is told again. A call that waits reaches the server behind all that, once. With Alone lines pass as they are.
//
// What you may touch: each file is one thing that a server keeps for its client, with the methods that both sides of it call. A
// line of a client that is alone must leave as it came: no edit may reach it. rules_test.go has the cases, model_test.go all orders.
//
// Package mcp names the pages of the specification that this rests on.
package mux
