// Package mcp knows the parts of the Model Context Protocol that package mux needs to put one server after another, and to
// share one. Parse reads a line, and At finds values in it where they stand. The package does no input or output,
// keeps no clock and logs nothing.
//
// What it relies on, by version of the specification and page (modelcontextprotocol.io/specification/VERSION/PAGE):
//
//   - Messages are JSON-RPC 2.0, one a line, without newlines in them (all versions, basic/transports; 2026-07-28,
//     basic/transports/stdio). Only 2025-03-26 has batches, and initialize must not be in one (basic/index, "Batching";
//     basic/lifecycle).
//   - An id is a string or an integer, never null (all versions, basic/index, "Requests"; 2024-11-05, basic/messages).
//     Up to 2025-11-25 an id is not used twice in a session; from 2026-07-28 on not while it is unanswered.
//   - Either side may cancel its own requests, but not initialize; an answer may still come and is to be ignored (up to
//     2025-11-25, basic/utilities/cancellation). From 2026-07-28 on only the client cancels, and a server sends the same
//     notification about a subscriptions/listen of the client that it ends (basic/patterns/cancellation).
//   - Progress belongs to an unanswered request or to a task that has not ended (2025-11-25, basic/utilities/progress),
//     so no separate account of it is kept.
//   - Up to 2025-11-25 a server knows its client from initialize and notifications/initialized, and keeps a log level
//     and resource subscriptions (basic/lifecycle, server/utilities/logging, server/resources).
//   - News of a resource may be about "a sub-resource of the one that the client actually subscribed to" (2025-11-25,
//     schema, ResourceUpdatedNotificationParams). From 2026-07-28 on a log level is one request's, and a log message does
//     not say which request it is about (server/utilities/logging).
//   - 2025-11-25 has tasks, which outlive the request that made them (basic/utilities/tasks). Later they are an
//     extension. A server may use it whenever a request says that the client knows it (SEP-2663).
//   - From 2026-07-28 on a server must not rely on earlier requests (basic/index, "Statelessness"). Every request says
//     its version in _meta, and there is no handshake (basic/versioning). A subscription lasts as long as its
//     subscriptions/listen is unanswered (basic/patterns/subscriptions), so it counts as the request that it is.
//
// Other state of a server cannot be known. Examples are what a tool call left in its memory, and a method of an
// extension. Another is a page to which the user was sent and for which the server waits (elicitation in URL mode,
// 2025-11-25). When such a server hibernates, that state is lost.
//
// What you may touch: a method that needs care is a case of RuleOf (method.go). Parse must take whatever a receiver may take for a
// message, so each change of it needs the fuzz targets of package mux.
package mcp
