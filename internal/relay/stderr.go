package relay

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// stderr is what goes to the client's standard error: what the servers write to theirs, through one pipe for them all, and with
// a guard the lines that are no messages. At most one read of it waits, so a server whose client does not read waits in its
// own write, as it would without us. What the guard takes out must hold nobody up: it waits up to strayRoom, and more is dropped.
type stderr struct {
	Peer
	last Tail
	// theirs is the end of the pipe for servers, 0 where they have the client's own standard error. It stays open, so the pipe
	// outlives each of them.
	theirs int
	// guards says that lines of the server which are no messages go here. dropped counts those that had no room.
	guards  bool
	dropped int
}

// strayRoom is how much may wait before lines are dropped, in bytes.
const strayRoom = 64 << 10

// Stderr has the relay write to the client's standard error. With guards, lines of the server that are no messages go there. With
// keeps, what the servers write to theirs passes through the relay, which remembers the last lines.
func (r *Relay) Stderr(guards, keeps bool) (err error) {
	e := &r.stderr
	if e.guards = guards; guards || keeps {
		e.Out, e.Broken = ErrorEnd(2), false
	}
	if keeps {
		if e.In, e.theirs, err = Pipe(true); err != nil {
			return fmt.Errorf("make a pipe for standard error: %w", err)
		}
		e.Ended = false
	}
	return nil
}

// lastReads bounds how much of standard error is read when a server has ended.
const lastReads = 8

// LastWords are the last lines of the server's standard error. What is still in the pipe belongs to them, unless the client does
// not read.
func (r *Relay) LastWords() *Tail {
	e := &r.stderr
	for range lastReads { // A process that outlives the server may write for ever.
		if e.Waiting() > 0 || e.Queued() == 0 {
			break
		}
		e.copy()
	}
	return &e.last
}

// ErrorEnd is a descriptor for text to which no write blocks. A terminal may be held by its user.
func ErrorEnd(fd int) Stream {
	s := WriteEnd(fd)
	if _, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ); err == nil && !s.socket {
		if again, err := proc.Reopen(fd, unix.O_WRONLY); err == nil {
			s.fd, s.ours = again, true
		}
	}
	return s
}

func (e *stderr) copy() {
	e.Read()
	text := e.TakeRest()
	e.last.Add(text)
	e.Put(text)
	e.Flush()
}

// copyStderr copies what poll has said can be copied. A server whose client has closed its end finds that out.
func (r *Relay) copyStderr(ready Polled) {
	e := &r.stderr
	if e.Flush(); ready[fromErrors].Revents != 0 && e.Waiting() == 0 {
		e.copy()
	}
	if e.Broken {
		e.In.Close()
		e.Ended = true
	}
}

// stderrTime bounds the wait for a client to take the last of standard error: it holds up the end of the session.
const stderrTime = 250 * time.Millisecond

func (r *Relay) flushStderr() {
	e := &r.stderr
	e.stray(nil)
	for limit := time.Now().Add(stderrTime); !e.Broken && (e.Waiting() > 0 || e.Queued() > 0); {
		fds := []unix.PollFd{e.PollOut()}
		switch {
		case e.Waiting() == 0:
			e.copy()
		case proc.Poll(fds, max(time.Until(limit), 0)) == 0 && !time.Now().Before(limit):
			return
		}
		e.Flush()
	}
}

// stray passes on text that is no message, after a word on what was dropped before.
func (e *stderr) stray(text []byte) {
	if e.Waiting() > strayRoom {
		e.dropped++
		return
	}
	word := ""
	if e.dropped > 0 {
		word = "mcp-tether: " + strconv.Itoa(e.dropped) + " lines of the server's standard output dropped: their reader was too slow\n"
		e.dropped = 0
	}
	e.Put(append([]byte(word), text...))
}
