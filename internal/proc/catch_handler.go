//go:build amd64 || arm64

package proc

import "syscall"

// onSignal and onReturn are the signal handler and its way back to the kernel; neither is ever called from Go.
//
//nolint:unused // used from assembly
func onSignal()

//nolint:unused // used from assembly
func onReturn()

// handlers gives the addresses of onSignal and onReturn.
func handlers() (signal, restorer uint64)

// Flags of sigaction(2). The runtime has given every thread an alternate stack.
const (
	saSiginfo  = 0x4
	saRestorer = 0x04000000
	saOnStack  = 0x08000000
	saRestart  = 0x10000000
)

func catch(set uint64) error {
	a := sigaction{flags: saSiginfo | saRestorer | saOnStack | saRestart, mask: ^uint64(0)}
	a.handler, a.restorer = handlers()
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if set&signalBit(n) == 0 {
			continue
		}
		if err := setAction(n, a); err != nil {
			return err
		}
	}
	return nil
}
