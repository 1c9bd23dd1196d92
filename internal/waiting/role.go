package waiting

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RoleSession is the hidden first argument of a session that certainly has no front.
const RoleSession = "__session"

// Role is what a process has become before its runtime started.
type Role uint8

// The roles.
const (
	None       Role = iota // an ordinary program
	Starter                // it prepares the server's start
	Supervisor             // it ends the session, or serves the container engine
	Recovery               // a child of the anchor, it ends the session that the supervisor has not ended
	Front                  // a child of the waiter, it serves the client before a server that may be replaced
)

// Inherited is what a process inherits and a Go runtime changes: the signals that were blocked and ignored, with bit n-1 for
// signal n, and the limit of open files.
type Inherited struct{ Mask, Ignored, Files, MostFiles uint64 }

// Event is what made the supervisor start its runtime.
type Event struct {
	Kind Kind
	// Signal is that of BySignal.
	Signal unix.Signal
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds.
const (
	BySignal  Kind = 1 + iota // a signal that ends
	ByAnchor                  // the anchor is gone
	ByParent                  // the process that has started the anchor is gone
	ByGateway                 // the gateway behind a launcher is gone
	ByStdin                   // standard input was closed
	ByStdout                  // nobody reads standard output
	ByServer                  // the server has ended
	ByClient                  // a client of the container engine connects
	ByExec                    // the server could not be executed (Page.Failure)
	ByStarter                 // the starter was killed
)

// SetRecord puts the session's record into the page, beside the one before: the starter may be killed at any moment. The error
// says that it does not fit.
func (p *Page) SetRecord(b []byte) error {
	at, size := p.where()
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
	at, size := p.where()
	if size == 0 || at+size > len(p.record) {
		return nil
	}
	return p.record[at : at+size]
}

func (p *Page) where() (at, size int) { return int(p.recorded >> 32), int(uint32(p.recorded)) }

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
	p.words = int64(s.Words)
	p.leafFD, p.killFD, p.listenFD, p.gatewayFD = int64(s.Leaf), int64(s.Kill), int64(s.Listener), int64(s.Gateway)
	p.mustMove = 0
	if s.MustMove {
		p.mustMove = 1
	}
	p.longest = s.Longest.Nanoseconds()
	if len(s.Foreign) > len(p.foreign) {
		p.manyForeign = 1
	}
	for i, pid := range s.Foreign[:min(len(s.Foreign), len(p.foreign))] {
		p.foreign[i] = int64(pid)
	}
	p.ready = 1
	return unix.Kill(int(p.supervisor), unix.SIGCHLD)
}

// SetLock tells the descriptor of the locked record. It is the supervisor's as soon as the starter has it: from then on the record
// is there.
func (p *Page) SetLock(fd int) { p.lockFD = int64(fd) }

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
	for atomic.LoadInt64(&p.group) == 0 && atomic.LoadInt64(&p.reaped) == 0 {
		pauseFor(50 * time.Microsecond)
	}
	return int(p.server), int(p.group)
}

// AwaitStarter waits until a starter that was killed with the supervisor is gone, for at most so long. Until then it may be in a system
// call that still makes a leaf or a file.
func (p *Page) AwaitStarter(limit time.Duration) {
	for began := time.Now(); p.starter > 0 && unix.Kill(int(p.starter), 0) == nil && time.Since(began) < limit; {
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
		case err != nil, p.keeps(int64(fd)):
		case flags&unix.FD_CLOEXEC != 0:
			p.ownBelow = max(p.ownBelow, int64(fd)+1)
		default:
			_ = unix.Close(fd)
		}
	}
}

// keeps reports whether a descriptor is the supervisor's, or waiter's.
//
//go:nosplit
//go:norace
func (p *Page) keeps(fd int64) bool {
	switch fd {
	case 0, 1, 2, p.parentFD, p.gatewayFD, p.anchorFD, p.signalFD, p.lockFD, p.leafFD, p.killFD, p.listenFD, p.keptFD, p.historyFD:
		return true
	}
	return false
}

// Server is the server's pid, 0 before its start. status is its wait status once it has ended.
func (p *Page) Server() (pid int, status unix.WaitStatus, ended bool) {
	return int(p.server), unix.WaitStatus(p.status), p.reaped != 0
}

// Group is the process group of the server, 0 before its start.
func (p *Page) Group() int { return int(p.group) }

// Failure is why the server could not be executed, and unmoved why it is not in its leaf; nil if it could, or is.
func (p *Page) Failure() (failed, unmoved error) {
	if p.errno != 0 {
		failed = unix.Errno(p.errno)
	}
	if p.unmoved != 0 {
		unmoved = unix.Errno(p.unmoved)
	}
	return failed, unmoved
}

// Pids are those of the processes of the session, and of the one that has started the anchor.
func (p *Page) Pids() (anchor, supervisor, parent int) {
	return int(p.anchor), int(p.supervisor), int(p.parent)
}

// Descriptors of the supervisor, each -1 where there is none.
func (p *Page) Descriptors() (parent, gateway, anchor, lock, listener int) {
	return int(p.parentFD), int(p.gatewayFD), int(p.anchorFD), int(p.lockFD), int(p.listenFD)
}

// Leaf is the leaf's directory, and its cgroup.kill, open for writing; -1 where there is none.
func (p *Page) Leaf() (dir, kill int) { return int(p.leafFD), int(p.killFD) }

// Closed reports whether a standard stream was not open when the session began.
func (p *Page) Closed(fd int) bool { return p.closed>>uint(fd)&1 != 0 }

// Terminal says that a person started the session in the foreground of a terminal.
func (p *Page) Terminal() bool { return p.terminal != 0 }

// Subreaper says why orphans of the server do not fall to the supervisor; nil if they do.
func (p *Page) Subreaper() error {
	if p.noSubreaper == 0 {
		return nil
	}
	return fmt.Errorf("become child subreaper: %w", unix.Errno(-p.noSubreaper))
}

// Path is the program that was to be executed.
func (p *Page) Path() string {
	n := bytes.IndexByte(p.path[:], 0)
	return string(p.path[:max(n, 0)])
}

// Ignored are those of SIGHUP, SIGINT and SIGQUIT that were ignored when the session began, with bit n-1 for signal n.
func (p *Page) Ignored() uint64 { return p.ignored }

// Begun says that the session is to end: the anchor gives the supervisor its time from now on.
func (p *Page) Begun() {
	if p.asked != 0 {
		return
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		p.asked = now.Nano()
		_ = unix.Kill(int(p.anchor), unix.SIGCHLD)
	}
}

// Listening says that signals are heard: the anchor or waiter may pass on what it has held meanwhile.
func (p *Page) Listening() {
	p.listening = 1
	if p.anchor > 0 {
		_ = unix.Kill(int(p.anchor), unix.SIGCHLD)
	}
}

// Frontless says that the session needs no front: the waiter executes it without one when this process has exited.
func (p *Page) Frontless() { p.frontless = 1 }

// SetFront tells the waiter how long the end of the session may take, and the pidfd of a gateway behind a launcher; -1 is none.
func (p *Page) SetFront(longest time.Duration, gateway int) {
	p.longest, p.gatewayFD = longest.Nanoseconds(), int64(gateway)
}

// Closing is what the waiter needs to end a session that sleeps, in place of a front.
type Closing struct {
	// Record is the path of the record.
	Record string
	// Quiet says that no log tells of the end. Else a front is started for that.
	Quiet bool
	// Past is the session's line for the history but for its end, which the waiter writes into this file of the directory; -1 is none.
	Past      []byte
	Directory int
	File      string
	// Age is how long ago the session began.
	Age time.Duration
}

// maxDraft bounds such a line, in bytes. The end of it must fit into a room's text as well.
const maxDraft = 3900

// close tells how the session ends if it sleeps until then. What does not fit is left to a front.
func (p *Page) close(c Closing) {
	p.quiet, p.drafted, p.historyFD = 0, int64(len(c.Past)), int64(c.Directory)
	if fits := join(p.files[:], []string{c.Record, c.File}) && len(c.Past) <= maxDraft; fits && c.Quiet {
		p.quiet = 1
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	p.began = now.Nano() - c.Age.Nanoseconds()
}

// Save leaves what the next front needs. The caller has nothing to do until then, and exits: the waiter forks the next one when
// there is something to do, or ends the session alone.
func (p *Page) Save(state []byte, c Closing) error {
	fd := int(p.keptFD)
	if fd < 0 {
		made, err := unix.MemfdCreate("mcp-tether", unix.MFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("make a file in memory: %w", err)
		}
		fd = made
	}
	all := slices.Concat(state, c.Past)
	for at := 0; at < len(all); {
		n, err := unix.Pwrite(fd, all[at:], int64(at))
		if err != nil {
			unix.Close(fd)
			p.keptFD = -1
			return fmt.Errorf("write what the next front needs: %w", err)
		}
		at += n
	}
	if err := unix.Ftruncate(fd, int64(len(all))); err != nil {
		return fmt.Errorf("write what the next front needs: %w", err)
	}
	p.close(c)
	p.keptFD, p.draft, p.saved = int64(fd), int64(len(state)), 1
	return nil
}

// Saved is what the front before has left; nil for the first one. If the caller is killed before Awake, there is another one.
func (p *Page) Saved() ([]byte, error) {
	if p.saved == 0 {
		return nil, nil
	}
	state := make([]byte, p.draft)
	if n, err := unix.Pread(int(p.keptFD), state, 0); err != nil || n < len(state) {
		return nil, fmt.Errorf("read what the front before has left (%d of %d bytes): %w", n, len(state), err)
	}
	return state, nil
}

// Waits reports whether a waiter is there that goes on without a front.
func (p *Page) Waits() bool { return p.anchor > 0 }

// Lock is the descriptor of the record's lock; -1 without.
func (p *Page) Lock() int { return int(p.lockFD) }

// Resumes reports whether a front before has left something.
func (p *Page) Resumes() bool { return p.saved != 0 }

// Awake says that this front has begun to act: the session ends with it from now on.
func (p *Page) Awake() {
	p.saved, p.takeovers = 0, 0
	if p.keptFD >= 0 {
		unix.Close(int(p.keptFD)) // It takes memory while there is a front.
		p.keptFD = -1
	}
	if p.historyFD >= 0 {
		unix.Close(int(p.historyFD))
		p.historyFD = -1
	}
}

// SignalFD can be read when there is something for Queued.
func (p *Page) SignalFD() int { return int(p.signalFD) }

// Finish says that the session is over, with the code that the anchor exits with.
func (p *Page) Finish(code int) { p.code, p.done = int64(code), 1 }
