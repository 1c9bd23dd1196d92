package proc

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Caught is a signal that was read from a signalfd.
type Caught struct {
	Signal syscall.Signal
	// FromKernel says that no process sent it: the terminal did, for its foreground group (SI_KERNEL, sigaction(2)).
	FromKernel bool
}

// SignalFD opens a non-blocking, close-on-exec signalfd(2) for the set. The signals must be blocked in every thread.
func SignalFD(set uint64) (int, error) {
	fd, err := unix.Signalfd(-1, sigset(set), unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("open signalfd: %w", err)
	}
	return fd, nil
}

// siKernel is SI_KERNEL of sigaction(2).
const siKernel = 0x80

// ReadSignals empties the signalfd into the slice.
func ReadSignals(fd int, into []Caught) []Caught {
	var info [8]unix.SignalfdSiginfo
	b := unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	for {
		n, err := unix.Read(fd, b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return into
		}
		for _, i := range info[:n/int(unsafe.Sizeof(info[0]))] {
			into = append(into, Caught{syscall.Signal(i.Signo), i.Code == siKernel})
		}
	}
}
