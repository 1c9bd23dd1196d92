package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/proc"
)

// The end of the session shows in standard output as well: its reader is gone. poll(2) tells of that on a descriptor of
// the write end; but as long as we hold one, the gateway does not see that the server has closed its own. A pipe can be
// watched without holding an end. For sockets there is no such thing: ours stays open beside the server's.

// pipeWatch tells of the readers of standard output that go.
type pipeWatch struct {
	// fd is the inotify instance; 0 where standard output's own descriptor tells.
	fd int
	// lookAt is when to look once more whether a reader is left, pause what follows that look; lookAt is zero when the
	// next event will tell.
	lookAt time.Time
	pause  time.Duration
}

// The kernel tells of a close just before it takes the reader from the pipe (__fput in fs/file_table.c). So a reader that
// is still there is looked for again, at growing distances: on a busy machine the one that closes may have to wait.
const (
	firstLook = time.Millisecond
	lastLook  = 4 * time.Second
)

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
		_ = unix.Close(watch)
		return false
	}
	// One that was about to close its end before the watch was there shows in a second look.
	s.stdout = pipeWatch{fd: watch, pause: lastLook}
	s.polled.add(stdoutReader, watch, unix.POLLIN)
	s.lookForReader(time.Now())
	return true
}

// onStdoutClosed: a process has closed the read end of standard output. It may not have been the last one.
func (s *Session) onStdoutClosed() {
	proc.DrainWatch(s.stdout.fd)
	s.polled.add(stdoutReader, s.stdout.fd, unix.POLLIN)
	s.stdout.pause = firstLook
	s.lookForReader(time.Now())
}

// lookForReader ends the session if nobody is left to read standard output.
func (s *Session) lookForReader(now time.Time) {
	w := &s.stdout
	w.lookAt = time.Time{}
	if !proc.HasReader(1) {
		s.polled.remove(stdoutReader)
		s.end(causeStdout)
		return
	}
	if w.pause <= lastLook {
		w.lookAt = now.Add(w.pause)
		w.pause *= 2
	}
}

// dropStdout stops waiting for the reader of standard output.
func (s *Session) dropStdout() {
	s.polled.remove(stdout)
	s.polled.remove(stdoutReader)
	if s.stdout.fd > 0 {
		_ = unix.Close(s.stdout.fd)
	}
	s.stdout = pipeWatch{}
}
