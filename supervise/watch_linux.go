package supervise

import (
	"time"

	"golang.org/x/sys/unix"
)

// source is something that the supervisor watches.
type source uint8

const (
	signals  source = iota // the pipe of caught signals
	children               // some child has ended
	stdin                  // the gateway's end of standard input
	stdout                 // the gateway's end of standard output
	parent                 // the process that spawned us
	gateway                // the first ancestor that is no launcher
	anchor
	clients // somebody connects to the container engine through us
)

// watch is the set of descriptors behind the supervisor's one poll(2). A descriptor that has fired is dropped, or poll
// would return at once for ever.
type watch struct {
	fds     []unix.PollFd
	sources []source
}

// add watches fd for the given events; errors and hang-ups are always reported (poll(2)).
func (w *watch) add(s source, fd int, events int16) {
	w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: events})
	w.sources = append(w.sources, s)
}

// addStreams watches for the gateway letting go of the streams. Nothing is read: POLLRDHUP and POLLHUP tell of a closed
// pipe, a shut-down socket and a closed peer, POLLERR on standard output that nobody reads it any more.
func (w *watch) addStreams() {
	w.add(stdin, 0, unix.POLLRDHUP)
	w.add(stdout, 1, 0)
}

// wait blocks until something fires or the time is up (a negative timeout waits for ever) and returns what fired. What
// happened to others is left in them; they stay as they are.
func (w *watch) wait(timeout time.Duration, others ...*unix.PollFd) []source {
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(timeout.Nanoseconds())
		ts = &t
	}
	own := len(w.fds)
	for _, o := range others {
		o.Revents = 0
		w.fds = append(w.fds, *o)
	}
	n, err := unix.Ppoll(w.fds, ts, nil)
	for i, o := range others {
		if err == nil {
			*o = w.fds[own+i]
		}
	}
	w.fds = w.fds[:own]
	if err != nil || n <= 0 {
		return nil
	}
	var fired []source
	keepFDs, keepSources := w.fds[:0], w.sources[:0]
	for i, p := range w.fds {
		s := w.sources[i]
		if p.Revents == 0 || s == signals {
			keepFDs, keepSources = append(keepFDs, unix.PollFd{Fd: p.Fd, Events: p.Events}), append(keepSources, s)
		}
		// POLLNVAL: a stream that was closed when we were started tells nothing.
		if p.Revents != 0 && p.Revents&unix.POLLNVAL == 0 {
			fired = append(fired, s)
		}
	}
	w.fds, w.sources = keepFDs, keepSources
	return fired
}

// drop stops watching a source.
func (w *watch) drop(s source) {
	for i := range w.sources {
		if w.sources[i] == s {
			w.fds = append(w.fds[:i], w.fds[i+1:]...)
			w.sources = append(w.sources[:i], w.sources[i+1:]...)
			return
		}
	}
}
