package relay

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// stderr is what goes to the client's standard error: what the servers write to theirs, through one pipe for them all, and with
// a guard the lines that are no messages. The pump holds at most one buffer, so a server whose client does not read waits in its
// own write, as it would without us. What the guard takes out must hold nobody up: it waits up to strayRoom, and more is dropped.
type stderr struct {
	pump
	last Tail
	// theirs is the end of the pipe for servers, 0 where they have the client's own standard error. It stays open, so the pipe
	// outlives each of them.
	theirs int
	// guards says that lines of the server which are no messages go here. straying: so does the rest of the line that it
	// writes. dropped counts those that had no room.
	guards, straying bool
	dropped          int
}

// strayRoom is how much may wait before lines are dropped, in bytes.
const strayRoom = 64 << 10

// Stderr has the relay write to the client's standard error. With guards, lines of the server that are no messages go there. With
// keeps, what the servers write to theirs passes through the relay, which remembers the last lines.
func (r *Relay) Stderr(guards, keeps bool) (err error) {
	e := &r.errs
	if e.guards = guards; guards || keeps {
		e.to = errorEnd(2)
	}
	if keeps {
		if e.from, e.theirs, err = pipe(true); err != nil {
			return fmt.Errorf("make a pipe for standard error: %w", err)
		}
		e.ended, e.tap = false, e.last.Add
	}
	return nil
}

// LastWords are the last lines of the server's standard error. What is still in the pipe belongs to them, unless the client does
// not read.
func (r *Relay) LastWords() *Tail {
	e := &r.errs
	for range bulkRounds { // A process that outlives the server may write for ever.
		if e.interest().Events != unix.POLLIN || readable(e.from.fd) == 0 {
			break
		}
		e.move(unix.POLLIN)
	}
	return &e.last
}

// errorEnd is a descriptor for text to which no write blocks. A terminal may be held by its user.
func errorEnd(fd int) Stream {
	s := WriteEnd(fd)
	if _, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ); err == nil && !s.socket {
		if again, err := proc.Reopen(fd, unix.O_WRONLY); err == nil {
			s.fd, s.ours = again, true
		}
	}
	return s
}

// copyStderr copies once what poll has said can be copied. A server whose client has closed its end finds that out.
func (r *Relay) copyStderr(ready int16) {
	e := &r.errs
	if e.move(ready) && e.large {
		r.bulk, r.bulky = time.Now(), true
	}
	if e.broken {
		e.from.Close()
	}
}

// stderrTime bounds the wait for a client to take the last of standard error: it holds up the end of the session.
const stderrTime = 250 * time.Millisecond

// flushStderr passes on the last of standard error.
func (r *Relay) flushStderr() {
	e := &r.errs
	e.stray(nil)
	for limit := time.Now().Add(stderrTime); len(e.pending) > 0 || readable(e.from.fd) > 0; {
		fd := []unix.PollFd{e.interest()}
		if e.broken || proc.Poll(fd, max(time.Until(limit), 0)) == 0 && !time.Now().Before(limit) {
			return
		}
		e.move(fd[0].Revents)
	}
}

// stray passes on text that is no message, after a word on what was dropped before.
func (e *stderr) stray(text []byte) {
	if len(e.pending) > strayRoom {
		e.dropped++
		return
	}
	word := ""
	if e.dropped > 0 {
		word = "mcp-tether: " + strconv.Itoa(e.dropped) + " lines of the server's standard output dropped: their reader was too slow\n"
		e.dropped = 0
	}
	e.put(append([]byte(word), text...))
}

// guard takes out of what the server has written the lines that are no messages, in place. b begins with a line, unless the beginning
// of one was passed on. The last line may go on, unless it is known to have ended. Once more of it has come than is held
// back, what has come decides for all of it.
func (r *Relay) guard(b []byte, ended bool) []byte {
	e := &r.errs
	if !e.guards {
		return b
	}
	kept, rest, passes := b[:0], b, r.fromServer.Partial()
	for len(rest) > 0 {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !passes && !e.straying {
			e.straying = r.judgesServer.IsStray(line, whole || ended)
		}
		line, rest = rest[:len(rest)-len(after)], after
		if e.straying {
			e.stray(line)
		} else {
			kept = append(kept, line...)
		}
		if passes = false; whole {
			e.straying = false
		}
	}
	return kept
}
