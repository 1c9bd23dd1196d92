package waiting

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

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

// Listening says that signals are heard: the anchor or waiter may pass on what it has held meanwhile.
func (p *Page) Listening() {
	p.listening = 1
	if p.anchor > 0 {
		_ = unix.Kill(int(p.anchor), unix.SIGCHLD)
	}
}

// SignalFD can be read when there is something for Queued.
func (p *Page) SignalFD() int { return int(p.signalFD) }

// Finish says that the session is over, with the code that the anchor exits with.
func (p *Page) Finish(code int) { p.code, p.done = int64(code), 1 }
