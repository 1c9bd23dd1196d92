package waiting

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

// Server is the server's pid, 0 before its start. status is its wait status once it has ended.
func (p *Page) Server() (pid int, status unix.WaitStatus, ended bool) {
	return p.server, unix.WaitStatus(p.status), p.reaped
}

// Group is the process group of the server, 0 before its start.
func (p *Page) Group() int { return p.group }

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

// Closed reports whether a standard stream was not open when the session began.
func (p *Page) Closed(fd int) bool { return p.closed[fd] }

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

// Listening says that signals are heard: the anchor or waiter may pass on what it has held meanwhile.
func (p *Page) Listening() {
	p.listening = true
	if p.Pid.Anchor > 0 {
		_ = unix.Kill(p.Pid.Anchor, unix.SIGCHLD)
	}
}

// Finish says that the session is over, with the code that the anchor exits with.
func (p *Page) Finish(code int) { p.code, p.done = code, true }
