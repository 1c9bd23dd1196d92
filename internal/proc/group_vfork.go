//go:build amd64 || arm64

package proc

// forkLeader forks a process that makes itself the leader of a process group and ends. It returns the pid, for which
// the caller must wait, or a negative errno. The child borrows the caller's memory and touches none of it (vfork(2)).
// So it is written in assembly and every signal must be blocked. Its end raises no SIGCHLD. Nothing waits for that
// signal, and a pending one would shorten the time that a start waits for the exec.
func forkLeader() int
