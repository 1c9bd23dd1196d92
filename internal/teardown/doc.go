// Package teardown decides when a session ends and makes it end.
//
// policy.go is the decision, pure and small enough to be searched exhaustively: a table of state × event.
// membership.go says which processes are members of a session, and batch.go which are those of sessions without anchor and
// supervisor. killer.go signals them: SIGTERM, then SIGSTOP until no member is left that could fork, then SIGKILL. It goes on until
// nothing is left or the time is up.
//
// A signal reaches only processes that were found by parentage below one of them, in the session's cgroup, or by its mark. Each is
// checked once more, through a pidfd, at the moment of sending.
package teardown
