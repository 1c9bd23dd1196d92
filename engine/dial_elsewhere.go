//go:build unix && !linux

package engine

import (
	"os"
	"syscall"
)

// startDetached starts a command in a terminal session of its own, and does not wait for it. The command does not get
// our stderr, which it would hold open. Nothing adopts what it leaves.
func startDetached(path string, args, env []string, stdio, stderr *os.File, _ bool) (int, error) {
	p, err := os.StartProcess(path, args, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{stdio, stdio, stderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Release() }()
	return p.Pid, nil
}
