// Package teardown decides when a session ends and makes it end.
//
// policy.go is the decision, pure and small enough to be searched exhaustively: a table of state × event. scope_linux.go
// says who belongs to the session, escalate_linux.go is the only place that signals members: SIGTERM, then a sweep of
// SIGSTOP until nobody is left who could fork, then SIGKILL, again and again until the tree is empty or the time is up.
//
// Whoever a signal reaches was found by parentage below the supervisor or by membership in the session's cgroup, and is
// checked once more, through a pidfd, at the moment of sending.
package teardown
