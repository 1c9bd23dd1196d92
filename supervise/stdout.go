package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// A session also ends when standard output has no reader any more. poll(2) reports that on a descriptor of the write end.
// But as long as we hold one, the gateway does not see that the server has closed its own. A pipe can be watched without
// holding an end of it. A socket cannot, so our descriptor of a socket stays open beside the server's.

// watchStdout watches for the end of the last reader of standard output.
func (s *Session) watchStdout() {
	if !s.hand.Terminal && proc.IsPipe(1) && s.stdout.open() {
		s.onStdoutClosed()
		return
	}
	s.polled.add(stdout, 1, 0)
}

// open begins to watch the pipe, and reports whether that is possible.
func (w *stdoutWatch) open() bool {
	again, err := proc.Reopen(1, unix.O_WRONLY)
	if err != nil {
		// Another user's pipe: what cannot be opened anew must be held, or nothing tells of its reader.
		return false
	}
	defer unix.Close(again)
	watch, err := proc.WatchReaders(1)
	if err != nil {
		return false
	}
	if err := proc.HoldPath(1); err != nil {
		unix.Close(watch)
		return false
	}
	w.watch = watch
	return true
}

// stdoutWatch is the watch over the pipe of standard output.
type stdoutWatch struct {
	// watch is an inotify(7) descriptor that reports readers that go; 0 where poll(2) on standard output does that.
	watch int
	// lookAt is when to look again whether there is a reader, and pause the time since the last look.
	lookAt time.Time
	pause  time.Duration
}

// First and last wait before looking again. The kernel reports a close before it counts the reader out (Linux 6.18,
// __fput). After that it reports nothing that could be waited for.
const (
	firstStdoutPause = time.Millisecond
	lastStdoutPause  = time.Second
)

// onStdoutClosed: a process is closing the read end of standard output. It may not be the last one.
func (s *Session) onStdoutClosed() {
	if s.stdout.watch == 0 {
		// The server's end was seen in the same turn, and has ended the watch.
		return
	}
	proc.DrainWatch(s.stdout.watch)
	s.polled.add(stdoutReader, s.stdout.watch, unix.POLLIN)
	s.stdout.pause = firstStdoutPause
	s.lookAtStdout()
}

// lookAtStdout ends the session if standard output has no reader any more. It looks again later if it has, and as long
// as it cannot be known.
func (s *Session) lookAtStdout() {
	s.stdout.lookAt = time.Time{}
	has, known := proc.HasReader(1)
	switch {
	case !known:
		s.stdout.pause = min(s.stdout.pause, lastStdoutPause)
	case !has:
		s.stdout.close(&s.polled)
		s.end(session.CauseStdout)
		return
	}
	if s.stdout.pause <= lastStdoutPause {
		s.stdout.lookAt = time.Now().Add(s.stdout.pause)
		s.stdout.pause *= 10
	}
}

// close stops waiting for the reader of standard output.
func (w *stdoutWatch) close(p *pollSet) {
	p.remove(stdout)
	p.remove(stdoutReader)
	if w.watch > 0 {
		proc.CloseWatch(w.watch)
	}
	*w = stdoutWatch{}
}
