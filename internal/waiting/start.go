package waiting

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetRecord puts the session's record into the page, beside the one before: the starter may be killed at any moment. The error
// says that it does not fit.
func (p *Page) SetRecord(b []byte) error {
	at, size := p.recordSpan()
	if at += size; at-size >= len(b) {
		at = 0
	}
	if at+len(b) > len(p.record) {
		return fmt.Errorf("keep the record in memory: %w", unix.E2BIG)
	}
	copy(p.record[at:], b)
	atomic.StoreUint64(&p.recorded, uint64(at)<<32|uint64(len(b)))
	return nil
}

// Record is what SetRecord has put into the page; nil if nothing was.
func (p *Page) Record() []byte {
	at, size := p.recordSpan()
	if size == 0 || at+size > len(p.record) {
		return nil
	}
	return p.record[at : at+size]
}

func (p *Page) recordSpan() (at, size int) { return int(p.recorded >> 32), int(uint32(p.recorded)) }

// Start is what the supervisor needs to execute the server.
type Start struct {
	// Path is the program, and Words where its command begins in the command line.
	Path  string
	Words int
	// Drop are beginnings of variables that the server does not get, and Add those that it gets.
	Drop, Add []string
	// Leaf is the leaf's directory, Kill its cgroup.kill, open for writing, Listener the socket for clients of the container
	// engine, and Gateway the pidfd of a gateway behind a launcher; -1 without.
	Leaf, Kill, Listener, Gateway int
	// Foreign are the pids of children that the anchor had before the session.
	Foreign []int
	// Files are the paths of the leaf, if there is one, and of the record's files. They go with the session.
	Files []string
	// MustMove says that the server is not to start outside of its leaf.
	MustMove bool
	// Longest is how long the end of the session may take.
	Longest time.Duration
}

// SetStart fills the page, and has the supervisor execute the server.
func (p *Page) SetStart(s Start) error {
	for _, text := range []struct {
		to   []byte
		from []string
	}{{p.path[:], []string{s.Path}}, {p.drop[:], s.Drop}, {p.add[:], s.Add}, {p.files[:], s.Files}} {
		if !join(text.to, text.from) {
			return fmt.Errorf("start %s: its path or environment is too long: %w", s.Path, unix.E2BIG)
		}
	}
	p.words, p.mustMove, p.longest = s.Words, s.MustMove, int(s.Longest)
	p.FD.Leaf, p.FD.Kill, p.FD.Listener, p.FD.Gateway = s.Leaf, s.Kill, s.Listener, s.Gateway
	p.manyForeign = copy(p.foreign[:], s.Foreign) < len(s.Foreign)
	p.ready = true
	return unix.Kill(p.Pid.Supervisor, unix.SIGCHLD)
}

// join writes texts that each end with a zero byte, and an empty one as the last.
func join(to []byte, texts []string) bool {
	for _, text := range texts {
		if len(text)+2 > len(to) {
			return false
		}
		copy(to, text)
		to[len(text)] = 0
		to = to[len(text)+1:]
	}
	to[0] = 0
	return true
}

// AwaitServer waits until the server was started, and returns its pid and its process group, 0 if it has ended before it had one.
func (p *Page) AwaitServer() (pid, group int) {
	for p.spawned == 0 {
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.spawned)), 0, 0, 0, 0, 0)
	}
	for p.group == 0 && !p.reaped {
		pauseFor(50 * time.Microsecond)
	}
	return p.server, p.group
}

// AwaitStarter waits until a starter that was killed with the supervisor is gone, for at most so long. Until then it may be in a system
// call that still makes a leaf or a file.
func (p *Page) AwaitStarter(limit time.Duration) {
	for began := time.Now(); p.Pid.Starter > 0 && unix.Kill(p.Pid.Starter, 0) == nil && time.Since(began) < limit; {
		pauseFor(time.Millisecond)
	}
}

// pauseFor is for a process that may open nothing: time.Sleep would have the runtime make a poll set, without which it aborts.
func pauseFor(d time.Duration) {
	left := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&left, nil)
}

// KeepOnly has all descriptors in a list closed that the supervisor, or waiter, does not need. The caller must exit then. What it was
// given is closed at once. What it has opened is closed when it has ended: its runtime aborts if its poller is closed before.
func (p *Page) KeepOnly(list []int) {
	for _, fd := range list {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		switch {
		case err != nil, p.keeps(fd):
		case flags&unix.FD_CLOEXEC != 0:
			p.FD.ownBelow = max(p.FD.ownBelow, fd+1)
		default:
			_ = unix.Close(fd)
		}
	}
}

// keeps reports whether a descriptor is the supervisor's, or waiter's.
func (p *Page) keeps(fd int) bool {
	switch d := &p.FD; fd {
	case 0, 1, 2, d.Parent, d.Gateway, d.Anchor, d.Signals, d.Lock, d.Leaf, d.Kill, d.Listener, d.Kept, d.History:
		return true
	}
	return false
}
