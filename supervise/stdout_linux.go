package supervise

import (
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
	s.stdoutWatch = watch
	s.onStdoutClosed()
	return true
}

// onStdoutClosed: a process has closed the read end of standard output. It may not have been the last one.
func (s *Session) onStdoutClosed() {
	proc.DrainWatch(s.stdoutWatch)
	if proc.HasReader(1) {
		s.polled.add(stdoutReader, s.stdoutWatch, unix.POLLIN)
		return
	}
	s.end(causeStdout)
}

// dropStdout stops waiting for the reader of standard output.
func (s *Session) dropStdout() {
	s.polled.remove(stdout)
	s.polled.remove(stdoutReader)
	if s.stdoutWatch > 0 {
		_ = unix.Close(s.stdoutWatch)
		s.stdoutWatch = 0
	}
}
