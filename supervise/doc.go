// Package supervise keeps one session: it starts the server, watches who wants it, and keeps the time of its end.
//
// Two processes share the work. The anchor is what the gateway spawned; gateways SIGKILL that one without warning, so it
// holds nothing but the role of a subreaper behind the other. The supervisor leads a session of its own, owns the
// server's tree and does every teardown. Either may be killed at any moment: the supervisor watches the anchor and the
// gateway through pidfds; what a killed supervisor leaves falls to the anchor, which ends it in its place.
//
// The supervisor's loop (loop_linux.go) waits in one poll(2) without a timeout while nothing is due: an idle session
// costs no wake-up.
package supervise
