// Package teardown decides when a session ends and makes it end.
//
// policy.go is the decision, pure and small enough to be searched exhaustively: a table of state × event.
// scope_linux.go says which processes are members. escalate_linux.go is the only place that signals them: SIGTERM, then
// SIGSTOP until no member is left that could fork, then SIGKILL. It goes on until the tree is empty or the time is up.
//
// A signal reaches only processes that were found by parentage below the supervisor, or in the session's cgroup. Each is
// checked once more, through a pidfd, at the moment of sending.
package teardown
