package proxy

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/http1"
)

const (
	// pipeSize is how much a pipe holds, in bytes: the most that a user without privileges may ask for.
	pipeSize = 1 << 20
	// maxFree is how many pipes are kept for the next connection that wants one.
	maxFree = 2
)

// pipes are where bytes wait between two splices. A connection takes one when more bytes have come than it reads at
// once. It gives the pipe back when they have gone, so idle connections hold none. The zero value has none.
type pipes struct {
	mu   sync.Mutex
	free []pipe
}

// pipe is both ends of a pipe.
type pipe struct{ r, w int }

func (p pipe) close() {
	unix.Close(p.r)
	unix.Close(p.w)
}

// take returns an empty pipe; false if the budget is spent, or no more descriptors can be had.
func (p *pipes) take(all *budget) (pipe, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !all.takeBulk(pipeSize) {
		return pipe{}, false
	}
	if n := len(p.free); n > 0 {
		last := p.free[n-1]
		p.free = p.free[:n-1]
		return last, true
	}
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		all.giveBulk(pipeSize)
		return pipe{}, false
	}
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize) // a smaller pipe will do
	return pipe{fds[0], fds[1]}, true
}

// give takes a pipe back. It closes a pipe that is not empty, or that is one too many.
func (p *pipes) give(x pipe, empty bool, all *budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all.giveBulk(pipeSize)
	if !empty || len(p.free) >= maxFree {
		x.close()
		return
	}
	p.free = append(p.free, x)
}

// close closes the pipes that no connection has taken.
func (p *pipes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.free {
		x.close()
	}
	p.free = nil
}

// move moves up to limit bytes from one connection to the other, in the kernel. It goes on for as long as a read would
// find more than a buffer takes. An error of to is a WriteError; one of from is left for the next read of it.
func (p *pipes) move(to, from net.Conn, limit int64, all *budget) (moved int64, err error) {
	in, out := rawOf(from), rawOf(to)
	if in == nil || out == nil {
		return 0, nil
	}
	for moved < limit {
		n, err := p.moveOnce(out, in, min(limit-moved, pipeSize), all)
		moved += n
		if err != nil || n < bufferSize {
			return moved, err
		}
	}
	return moved, nil
}

// moveOnce waits for bytes and moves what fits into a pipe. It holds no pipe while it waits.
func (p *pipes) moveOnce(out, in syscall.RawConn, limit int64, all *budget) (moved int64, err error) {
	var (
		between pipe
		taken   bool
		n       int64
	)
	_ = in.Read(func(from uintptr) bool {
		if between, taken = p.take(all); !taken {
			return true
		}
		if n, err = splice(from, uintptr(between.w), limit); n > 0 {
			return true
		}
		p.give(between, true, all)
		return !errors.Is(err, unix.EAGAIN)
	})
	if n <= 0 {
		return 0, nil // the next read says why
	}
	waitErr := out.Write(func(to uintptr) bool {
		for err = nil; moved < n && err == nil; {
			var part int64
			part, err = splice(uintptr(between.r), to, n-moved)
			moved += part
		}
		return !errors.Is(err, unix.EAGAIN)
	})
	p.give(between, moved == n, all)
	if err := errors.Join(err, waitErr); err != nil {
		return moved, http1.WriteError{Err: err}
	}
	return moved, nil
}

// splice is splice(2) between a pipe and a descriptor that never blocks; see proc.ReadNow.
func splice(from, to uintptr, limit int64) (int64, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, from, 0, to, 0, uintptr(limit), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return 0, errno
		}
		return int64(n), nil
	}
}

// rawOf returns the descriptor of a connection, nil if there is none.
func rawOf(c net.Conn) syscall.RawConn {
	if has, ok := c.(syscall.Conn); ok {
		if raw, err := has.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
