//go:build !(amd64 || arm64)

package proc

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// catch goes through package os/signal where there is no handler in assembly. The sender of a signal is then
// unknown.
func catch(set uint64) error {
	ch := make(chan os.Signal, lastSignal)
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if set&signalBit(n) != 0 {
			signal.Notify(ch, n)
		}
	}
	go func() {
		for s := range ch {
			if n, ok := s.(syscall.Signal); ok {
				atomic.OrUint64(&signalsPending, signalBit(n))
				_, _ = unix.Write(int(signalBell), []byte{0})
			}
		}
	}()
	return nil
}
