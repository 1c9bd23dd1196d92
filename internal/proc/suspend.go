package proc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Suspend stops this process as a SIGTSTP that nobody catches does, and returns when it is continued: at once in a process group
// that no shell looks after. Call it on a locked thread.
func Suspend() error {
	caught, err := getAction(unix.SIGTSTP)
	if err != nil {
		return err
	}
	// Zero is the kernel's own action.
	if err := setAction(unix.SIGTSTP, sigaction{}); err != nil {
		return err
	}
	mask := sigsetOf(uint64(setOf(syscall.SIGTSTP)))
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &mask, nil)
	// Sent to this thread, it has been taken when the call returns.
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
	return setAction(unix.SIGTSTP, caught)
}
