package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/proc"
)

// The end of the session shows in standard output as well: its reader is gone. poll(2) tells of that on a descriptor of
// the write end; but as long as we hold one, the gateway does not see that the server has closed its own. A pipe can be
// watched without holding an end. For sockets there is no such thing: ours stays open beside the server's.

// watchStdout waits for the reader of standard output to go.
func (s *Session) watchStdout() {
	if s.hib == nil && !s.hand.Terminal && proc.IsPipe(1) && s.watchStdoutPipe() {
		return
	}
	s.polled.add(stdout, 1, 0)
}

// watchStdoutPipe reports whether the pipe can be watched.
func (s *Session) watchStdoutPipe() bool {
	watch, err := proc.WatchReaders(1)
	if err != nil {
		return false
	}
	if err := proc.HoldPath(1); err != nil {
		unix.Close(watch)
		return false
	}
	s.stdout.watch = watch
	s.onStdoutClosed()
	return true
}

// stdoutWatch is the watch over the pipe of standard output.
type stdoutWatch struct {
	// watch tells of readers that go; 0 where that is a descriptor's to tell.
	watch int
	// lookAt is when to look again whether there is a reader, and pause the time since the last look.
	lookAt time.Time
	pause  time.Duration
}

// First and last wait before looking again. The kernel tells of a close before it counts the reader out (Linux 6.18,
// __fput), and does nothing more then that could be waited for.
const (
	firstStdoutPause = time.Millisecond
	lastStdoutPause  = time.Second
)

// onStdoutClosed: a process is closing the read end of standard output. It may not be the last one.
func (s *Session) onStdoutClosed() {
	proc.DrainWatch(s.stdout.watch)
	s.polled.add(stdoutReader, s.stdout.watch, unix.POLLIN)
	s.stdout.pause = firstStdoutPause
	s.lookAtStdout()
}

// lookAtStdout ends the session if standard output has no reader any more, and looks again later if it has.
func (s *Session) lookAtStdout() {
	s.stdout.lookAt = time.Time{}
	if !proc.HasReader(1) {
		s.dropStdout()
		s.end(causeStdout)
		return
	}
	if s.stdout.pause <= lastStdoutPause {
		s.stdout.lookAt = time.Now().Add(s.stdout.pause)
		s.stdout.pause *= 10
	}
}

// dropStdout stops waiting for the reader of standard output.
func (s *Session) dropStdout() {
	s.polled.remove(stdout)
	s.polled.remove(stdoutReader)
	if s.stdout.watch > 0 {
		_ = unix.Close(s.stdout.watch)
	}
	s.stdout = stdoutWatch{}
}
