package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// source is something that a session waits for.
type source uint8

const (
	signals source = iota // those that end the session, and SIGCHLD
	stdin                 // the gateway's end of standard input
	stdout                // the gateway's end of standard output
	parent                // the process that spawned us
	gateway               // the first ancestor that is no launcher
	anchor                // the process between the gateway and us
	queued                // signals that do not end the session
	clients               // a client connects to the container engine through us
	made                  // a client has made a container
)

// causeOf is the cause for a source that has fired, NoCause for one that ends no session.
func causeOf(s source) session.Cause {
	switch s {
	case stdin:
		return session.CauseStdin
	case stdout:
		return session.CauseStdout
	case anchor:
		return session.CauseAnchor
	case parent, gateway:
		return session.CauseGateway
	}
	return session.NoCause
}

// pollSet is what the one ppoll(2) of a session waits for. A descriptor that has fired is removed, or poll would return at
// once for ever; only the signals stay. The code that adds a descriptor removes it before it closes it, because the kernel
// gives the number to the next file.
type pollSet struct {
	fds     []unix.PollFd
	sources []source
}

// add waits for the given events on fd; errors and hang-ups are always reported (poll(2)).
func (p *pollSet) add(s source, fd int, events int16) {
	p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: events})
	p.sources = append(p.sources, s)
}

// remove stops waiting for a source.
func (p *pollSet) remove(s source) {
	for i := len(p.sources) - 1; i >= 0; i-- {
		if p.sources[i] == s {
			p.fds = append(p.fds[:i], p.fds[i+1:]...)
			p.sources = append(p.sources[:i], p.sources[i+1:]...)
		}
	}
}

// wait blocks until something fires or the time is up (a negative timeout waits for ever) and returns what fired.
func (p *pollSet) wait(timeout time.Duration) []source {
	if proc.Poll(p.fds, timeout) == 0 {
		return nil
	}
	return p.fired()
}

// fired removes what has fired from the set, and returns it.
func (p *pollSet) fired() []source {
	var fired []source
	fds, sources := p.fds[:0], p.sources[:0]
	for i, f := range p.fds {
		s := p.sources[i]
		if f.Revents == 0 || s == signals || s == queued {
			fds, sources = append(fds, unix.PollFd{Fd: f.Fd, Events: f.Events}), append(sources, s)
		}
		// POLLNVAL: a stream that was closed when we were started tells nothing.
		if f.Revents != 0 && f.Revents&unix.POLLNVAL == 0 {
			fired = append(fired, s)
		}
	}
	p.fds, p.sources = fds, sources
	return fired
}
