package supervise

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// hand is what the processes of a session know of each other.
type hand struct {
	// id is the session's.
	id string
	// Pids: supervisor is the process that owns the tree, and parent the one that has started the session. anchor is 0 where
	// there is none.
	supervisor, anchor, parent int
	// Pidfds of the supervisor; -1 where there is none.
	parentFD, gatewayFD, anchorFD int
	// noSubreaper says why orphans of the server do not fall to the supervisor; nil if they do.
	noSubreaper error
	// terminal says that a person started the session in the foreground of a terminal.
	terminal bool
	// page is what the processes share; nil without an anchor.
	page *waiting.Page
}

// handOf is that of a session with an anchor.
func handOf(page *waiting.Page) hand {
	return hand{
		page: page, terminal: page.Terminal, noSubreaper: page.Subreaper(),
		anchor: page.Pid.Anchor, supervisor: page.Pid.Supervisor, parent: page.Pid.Parent,
		parentFD: page.FD.Parent, gatewayFD: page.FD.Gateway, anchorFD: page.FD.Anchor,
	}
}

// direct is that of a process without an anchor. It opens a pidfd of the parent, and asks for the parent's pid once more. If
// that has changed, the gateway died before it could be watched.
func direct() (hand, error) {
	h := hand{id: session.NewID(), supervisor: os.Getpid(), parent: os.Getppid(), parentFD: -1, gatewayFD: -1, anchorFD: -1, terminal: proc.OnTerminal()}
	if h.parent <= 0 {
		return h, nil
	}
	fd, err := proc.OpenPidfd(h.parent)
	if errors.Is(err, unix.ENOSYS) {
		return h, fmt.Errorf("the kernel has no pidfds (Linux 5.4): nothing was started: %w", err)
	}
	if h.parentFD = fd; err != nil {
		h.parentFD = -1
	}
	if os.Getppid() != h.parent {
		return h, fmt.Errorf("gateway (pid %d) ended while its session started: nothing was started", h.parent)
	}
	return h, nil
}

// foreignChildren lists the children that a process has beside the supervisor: a shell may have started them, and then executed
// mcp-tether in its own place.
func (c *common) foreignChildren() (out []proc.ID) {
	if c.hand.page != nil && c.hand.page.Childless {
		return nil
	}
	of := c.hand.anchor
	if of == 0 {
		of = c.hand.supervisor
	}
	all, _ := c.reader.Descendants(of)
	for _, p := range all {
		if p.PPID == of && p.PID != c.hand.supervisor {
			out = append(out, p.ID)
		}
	}
	return out
}
