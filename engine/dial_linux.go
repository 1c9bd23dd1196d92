package engine

import (
	"os"

	"mcp-tether/proc"
)

// startDetached starts a command in a terminal session of its own, and does not wait for it. The command does not get
// our stderr, which it would hold open. With adopts, the pid is that of a process that adopts what the command leaves.
func startDetached(path string, args, env []string, stdio, stderr *os.File, adopts bool) (int, error) {
	in := proc.ReadAtExec()
	in.Closed = 0
	fd := int(stdio.Fd())
	return proc.Start(proc.Child{
		Path: path, Argv: args, Env: env, Stdin: fd, Stdout: fd, Stderr: int(stderr.Fd()),
		NewSession: true, Adopts: adopts, CgroupFD: -1, CgroupProcs: -1, Inherited: in,
	})
}
