package engine

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a connected, non-blocking unix socket. As a syscall.RawConn it waits until the socket is ready.
//
// Go's own poller asks for both directions of a descriptor at once, and a unix socket becomes writable whenever its
// peer has read. So each message would wake us once more for nothing. Here each direction that is waited for has an
// epoll descriptor of its own, and Go's poller watches that. For a small request that halves our wakeups, and saves a
// third of their cost.
type socket struct {
	file *os.File
	raw  syscall.RawConn // of file, which Go's poller does not watch
	in   *epollWatch     // nil if no descriptor was left: then Go's poller watches file

	mu     sync.Mutex
	out    *epollWatch // nil until a write had to wait
	closed bool
}

// epollWatch is an epoll descriptor that is readable when a socket is ready.
type epollWatch struct {
	file *os.File
	raw  syscall.RawConn
}

// openSocket takes over a connected socket. It cannot fail for want of descriptors.
func openSocket(fd int) (*socket, error) {
	in, err := newEpollWatch(fd, unix.EPOLLIN|unix.EPOLLRDHUP)
	if err != nil {
		in = nil
	}
	return newSocketWith(fd, in)
}

func newSocketWith(fd int, in *epollWatch) (*socket, error) {
	// A descriptor that is blocking when it becomes a File stays out of Go's poller.
	if err := unix.SetNonblock(fd, in == nil); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("prepare socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "socket"), in: in}
	var err error
	if s.raw, err = s.file.SyscallConn(); err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("prepare socket: %w", err)
	}
	return s, nil
}

func newEpollWatch(fd int, events uint32) (*epollWatch, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll descriptor: %w", err)
	}
	if err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events}); err == nil {
		err = unix.SetNonblock(ep, true)
	}
	if err != nil {
		unix.Close(ep)
		return nil, fmt.Errorf("watch a socket: %w", err)
	}
	r := &epollWatch{file: os.NewFile(uintptr(ep), "epoll")}
	if r.raw, err = r.file.SyscallConn(); err != nil {
		_ = r.file.Close()
		return nil, fmt.Errorf("watch a socket: %w", err)
	}
	return r, nil
}

// Control calls f with the descriptor, which stays open meanwhile.
func (s *socket) Control(f func(fd uintptr)) error { return s.raw.Control(f) }

// Read calls f whenever the socket may be read, until f returns true.
func (s *socket) Read(f func(fd uintptr) bool) error {
	if s.in == nil {
		return s.raw.Read(f)
	}
	return s.await(s.in, f)
}

// Write calls f whenever the socket may be written, until f returns true.
func (s *socket) Write(f func(fd uintptr) bool) error {
	if s.in == nil {
		return s.raw.Write(f)
	}
	done := false
	if err := s.raw.Control(func(fd uintptr) { done = f(fd) }); err != nil || done {
		return err
	}
	if out := s.writable(); out != nil {
		return s.await(out, f)
	}
	for !done { // without a descriptor, which is rare enough
		time.Sleep(connectPause)
		if err := s.raw.Control(func(fd uintptr) { done = f(fd) }); err != nil {
			return err
		}
	}
	return nil
}

// await tries before it waits. It misses nothing: what happens after an attempt makes r readable.
func (s *socket) await(r *epollWatch, f func(fd uintptr) bool) error {
	var inner error
	err := r.raw.Read(func(uintptr) (done bool) {
		inner = s.raw.Control(func(fd uintptr) { done = f(fd) })
		return done || inner != nil
	})
	if err != nil {
		return err
	}
	return inner
}

// writable returns what waits for writes, nil if it cannot be made.
func (s *socket) writable() *epollWatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil && !s.closed {
		_ = s.raw.Control(func(fd uintptr) {
			if out, err := newEpollWatch(int(fd), unix.EPOLLOUT); err == nil {
				s.out = out
			}
		})
	}
	return s.out
}

// SetReadDeadline sets the time at which Read gives up.
func (s *socket) SetReadDeadline(t time.Time) error {
	if s.in == nil {
		return s.file.SetReadDeadline(t)
	}
	return s.in.file.SetReadDeadline(t)
}

// Close closes the socket, and ends what waits for it.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, r := range []*epollWatch{s.in, s.out} {
		if r != nil {
			_ = r.file.Close()
		}
	}
	return s.file.Close()
}
