// Package supervise runs one session: it starts the server, watches the gateway, and ends everything in time.
//
// Two processes share the work. The anchor is the process that the gateway spawned. Gateways SIGKILL it without warning,
// so it does little: it passes signals on and watches the supervisor. The supervisor owns the server's tree and does every
// teardown. Either may be killed at any moment. The supervisor watches anchor and gateway through pidfds. The orphans
// of a killed supervisor are reparented to the anchor, which ends them in its place. A supervisor that hangs is killed
// by the anchor.
//
// A session is exactly one start of one server, with the gateway's own streams: nothing is copied. Its tree is the server
// and all that it started. A front may stand before it (internal/front). The loop (session.go) waits in one poll(2), without a timeout while nothing is due: an idle session costs no wake-up.
package supervise
