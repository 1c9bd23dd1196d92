// Package teardown decides when a session ends and makes it end.
//
// policy.go is the decision, pure and small enough to be searched exhaustively: a table of state × event.
// scope.go says which processes are members, and escalate.go signals them: SIGTERM, then SIGSTOP until no member is left
// that could fork, then SIGKILL. It goes on until the tree is empty or the time is up. The supervisor does that, or the anchor
// after it. batch.go does the same for sessions that have neither any more.
//
// A signal reaches only processes that were found by parentage below one of them, in the session's cgroup, or by its mark. Each is
// checked once more, through a pidfd, at the moment of sending.
package teardown
