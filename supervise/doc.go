// Package supervise runs one session: it starts the server, watches the gateway, and ends everything in time.
//
// Two processes share the work. The anchor is the process that the gateway spawned. Gateways SIGKILL it without warning,
// so it does little: it passes signals on and watches the supervisor. The supervisor owns the server's tree and does every
// teardown. Either may be killed at any moment. The supervisor watches anchor and gateway through pidfds. The orphans
// of a killed supervisor are reparented to the anchor, which ends them in its place. A supervisor that hangs is killed
// by the anchor.
//
// A Session lives from start to exit; a tree, from one start of the server to the end of all that it started. A tree
// knows the data that it shares with its session (common), but not the session itself. The loop (session_linux.go)
// waits in one poll(2), without a timeout while nothing is due: an idle session costs no wake-up.
package supervise
