package waiting

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// SetFront tells the waiter how long the end of the session may take, and the pidfd of a gateway behind a launcher; -1 is none.
func (p *Page) SetFront(longest time.Duration, gateway int) {
	p.longest, p.FD.Gateway = int(longest), gateway
}

// Closing is what the waiter needs to end a session that sleeps, in place of a front.
type Closing struct {
	// Record is the path of the record.
	Record string
	// Quiet says that no log tells of the end. Else a front is started for that.
	Quiet bool
	// Past is the session's line for the history but for its end, which the waiter writes into this file of the directory; -1 is none.
	Past      []byte
	Directory int
	File      string
	// Age is how long ago the session began.
	Age time.Duration
}

// maxDraft bounds such a line, in bytes.
const maxDraft = 3900

// setClosing tells how the session ends if it sleeps until then. What does not fit is left to a front.
func (p *Page) setClosing(c Closing) {
	fits := join(p.files[:], []string{c.Record, c.File}) && len(c.Past) <= maxDraft
	p.quiet, p.drafted, p.FD.History = fits && c.Quiet, len(c.Past), c.Directory
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	p.began = int(now.Nano()) - int(c.Age)
}

// Save leaves what the next front needs. The caller has nothing to do until then, and exits: the waiter forks the next one when
// there is something to do, or ends the session alone.
func (p *Page) Save(state []byte, c Closing) error {
	fd := p.FD.Kept
	if fd < 0 {
		made, err := unix.MemfdCreate("mcp-tether", unix.MFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("make a file in memory: %w", err)
		}
		fd = made
	}
	all := slices.Concat(state, c.Past)
	for at := 0; at < len(all); {
		n, err := unix.Pwrite(fd, all[at:], int64(at))
		if err != nil {
			unix.Close(fd)
			p.FD.Kept = -1
			return fmt.Errorf("write what the next front needs: %w", err)
		}
		at += n
	}
	if err := unix.Ftruncate(fd, int64(len(all))); err != nil {
		return fmt.Errorf("write what the next front needs: %w", err)
	}
	p.setClosing(c)
	p.FD.Kept, p.draft, p.saved = fd, len(state), true
	return nil
}

// Saved is what the front before has left; nil for the first one. If the caller is killed before Awake, there is another one.
func (p *Page) Saved() ([]byte, error) {
	if !p.saved {
		return nil, nil
	}
	state := make([]byte, p.draft)
	if n, err := unix.Pread(p.FD.Kept, state, 0); err != nil || n < len(state) {
		return nil, fmt.Errorf("read what the front before has left (%d of %d bytes): %w", n, len(state), err)
	}
	return state, nil
}

// Resumes reports whether a front before has left something.
func (p *Page) Resumes() bool { return p.saved }

// Awake says that this front has begun to act: the session ends with it from now on.
func (p *Page) Awake() {
	p.saved, p.takeovers = false, 0
	if p.FD.Kept >= 0 {
		unix.Close(p.FD.Kept) // It takes memory while there is a front.
		p.FD.Kept = -1
	}
	if p.FD.History >= 0 {
		unix.Close(p.FD.History)
		p.FD.History = -1
	}
}
