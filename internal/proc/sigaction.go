package proc

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is struct kernel_sigaction (rt_sigaction(2)), the same on amd64 and arm64.
type sigaction struct {
	handler, flags, restorer, mask uint64
}

const sigIgn = 1

func getAction(sig syscall.Signal) (sigaction, error) {
	var a sigaction
	return a, rtSigaction(sig, nil, &a)
}

func setAction(sig syscall.Signal, a sigaction) error { return rtSigaction(sig, &a, nil) }

func rtSigaction(sig syscall.Signal, set, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(old)), 8, 0, 0)
	if errno != 0 {
		return fmt.Errorf("set the action of %v: %w", sig, errno)
	}
	return nil
}

// Ignore has the kernel drop a signal that the runtime catches. A child has its default again (syscall.ForkExec).
func Ignore(sig syscall.Signal) error { return setAction(sig, sigaction{handler: sigIgn}) }

func sigsetOf(mask uint64) (s unix.Sigset_t) {
	*(*uint64)(unsafe.Pointer(&s)) = mask
	return s
}

// setMask sets which signals this thread blocks. was is what it has blocked before.
func setMask(mask uint64) (was uint64) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), uintptr(unsafe.Pointer(&was)), 8, 0, 0)
	return was
}
