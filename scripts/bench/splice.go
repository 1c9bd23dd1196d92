package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// spliceArg makes this program run a command behind a relay to its engine that does nothing but splice(2). No relay
// between three processes can be much faster.
const spliceArg = "__splice"

// spliceSubject starts servers behind that relay.
func (b *bench) spliceSubject() subject {
	return subject{name: "relay by splice", wrap: []string{"/usr/bin/env", "GODEBUG=asyncpreemptoff=1", b.self, spliceArg}}
}

// splicePipe is how much a pipe of the relay holds, in bytes.
const splicePipe = 1 << 20

// playSplice runs a command with DOCKER_HOST set to a relay.
func playSplice(argv []string) int {
	// A thread that waits in the kernel keeps its processor of Go's scheduler, so there must be enough processors.
	runtime.GOMAXPROCS(64)
	debug.SetGCPercent(-1)
	// A terminal session of its own, as mcp-tether has: the scheduler shares the processor between terminal sessions.
	_, _ = unix.Setsid()
	to := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	at := fmt.Sprintf("%s.%d", to, os.Getpid())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: relay:", err)
		return 1
	}
	defer l.Close()
	go func() {
		for {
			if err := relayNext(l, to); err != nil {
				return
			}
		}
	}()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+at)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if cmd.Run() != nil {
		return 1
	}
	return 0
}

// relayNext relays the next client.
func relayNext(l *net.UnixListener, to string) error {
	c, err := l.AcceptUnix()
	if err != nil {
		return fmt.Errorf("accept a client: %w", err)
	}
	e, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: to, Net: "unix"})
	if err != nil {
		return fmt.Errorf("reach the engine: %w", err)
	}
	cf, errC := c.File() // blocking
	ef, errE := e.File()
	if err := errors.Join(errC, errE); err != nil {
		return fmt.Errorf("relay a client: %w", err)
	}
	_, _ = c.Close(), e.Close()
	go spliceAll(cf, ef)
	go spliceAll(ef, cf)
	return nil
}

// spliceAll moves everything from one connection to the other.
func spliceAll(from, to *os.File) {
	runtime.LockOSThread()
	defer runtime.KeepAlive([2]*os.File{from, to})
	in, out := from.Fd(), to.Fd()
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC) != nil {
		return
	}
	defer closeAll(fds[:]...)
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, splicePipe)
	for {
		n := spliceSome(in, uintptr(fds[1]), splicePipe)
		if n <= 0 {
			_ = unix.Shutdown(int(out), unix.SHUT_WR)
			return
		}
		for n > 0 {
			m := spliceSome(uintptr(fds[0]), out, n)
			if m <= 0 {
				return
			}
			n -= m
		}
	}
}

// spliceSome calls splice(2) without telling Go's scheduler.
func spliceSome(from, to uintptr, limit int) int {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, from, 0, to, 0, uintptr(limit), unix.SPLICE_F_MOVE)
		if errno == 0 {
			return int(n)
		}
		if errno != unix.EINTR {
			return -1
		}
	}
}
