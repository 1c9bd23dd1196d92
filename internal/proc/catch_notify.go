//go:build !(amd64 || arm64)

package proc

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// catchInto goes through package os/signal where there is no handler in assembly. The sender of a signal is then
// unknown.
func catchInto(fd int, set uint64) error {
	ch := make(chan os.Signal, lastSignal)
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if set&signalBit(n) != 0 {
			signal.Notify(ch, n)
		}
	}
	go func() {
		for s := range ch {
			if n, ok := s.(syscall.Signal); ok {
				_, _ = unix.Write(fd, []byte{byte(n), 0})
			}
		}
	}()
	return nil
}
