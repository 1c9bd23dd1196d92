package proc

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// EmptyGroup makes a process group of the caller's session whose leader has ended. A process that joins it
// (Child.Group) leads no group, so it may call setsid(2). All the same, its group can be distinguished from the
// caller's. The group's number stays taken until release is called, and after that as long as the group has a member.
func EmptyGroup() (group int, release func(), err error) {
	all, old := ^uint64(0), uint64(0)
	sigprocmask(unix.SIG_SETMASK, &all, &old)
	leader := forkLeader()
	sigprocmask(unix.SIG_SETMASK, &old, nil)
	if leader < 0 {
		return 0, nil, fmt.Errorf("make a process group: %w", syscall.Errno(-leader))
	}
	return leader, func() { _, _ = Wait(leader) }, nil
}

// ControllingTerminal reports whether the caller has a controlling terminal (tty(4)).
func ControllingTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}
