//go:build linux && (amd64 || arm64)

package proc

// forkLeader forks a process that makes itself the leader of a process group and ends. It returns the pid, which is to be
// waited for, or a negative errno. The child borrows the caller's memory and touches none of it (vfork(2)), which is why
// it is written in assembly and every signal must be blocked. Its end raises no SIGCHLD: nothing waits for that, and a start
// waits less patiently for the exec while a signal waits for it.
func forkLeader() int
