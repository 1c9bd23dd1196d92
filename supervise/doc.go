// Package supervise runs one session: it starts the server, watches the gateway, and ends everything in time.
//
// Three processes share the work (internal/waiting). Anchor and supervisor wait without a Go runtime. The starter runs Start:
// it prepares what the supervisor needs to execute the server, and exits. When the session is to end, the supervisor starts
// its runtime and runs End. If it is killed or hangs, a child of the anchor does: the orphans of a killed supervisor fall to
// the anchor. What End needs lies in a page that all of them share, so it depends on no file.
//
// A session is exactly one start of one server, with the gateway's own streams: nothing is copied. Its tree is the server
// and all that it started. A front may stand before it (internal/front). A binary that was not linked with the entry before
// the runtime has one process (Alone).
package supervise
