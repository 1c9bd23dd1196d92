package supervise

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/waiting"
)

// above are the processes above the server.
type above struct {
	// Pids: supervisor is the process that owns the tree, and parent the one that has started the session. anchor is 0 where
	// there is none.
	supervisor, anchor, parent int
	// Pidfds of the supervisor; -1 where there is none.
	parentFD, gatewayFD, anchorFD int
	// noSubreaper says why orphans of the server do not fall to the supervisor; nil if they do.
	noSubreaper error
	// terminal says that a person started the session in the foreground of a terminal.
	terminal bool
}

// aboveOf are those of a session with an anchor.
func aboveOf(page *waiting.Page) above {
	return above{
		supervisor: page.Pid.Supervisor, anchor: page.Pid.Anchor, parent: page.Pid.Parent,
		parentFD: page.FD.Parent, gatewayFD: page.FD.Gateway, anchorFD: page.FD.Anchor,
		terminal: page.Terminal, noSubreaper: page.Subreaper(),
	}
}

// direct are those of a process without an anchor. It opens a pidfd of the parent, and asks for the parent's pid once more. If
// that has changed, the gateway died before it could be watched.
func direct() (above, error) {
	a := above{supervisor: os.Getpid(), parent: os.Getppid(), parentFD: -1, gatewayFD: -1, anchorFD: -1, terminal: proc.OnTerminal()}
	if a.parent <= 0 {
		return a, nil
	}
	fd, err := proc.OpenPidfd(a.parent)
	if errors.Is(err, unix.ENOSYS) {
		return a, fmt.Errorf("the kernel has no pidfds (Linux 5.4): nothing was started: %w", err)
	}
	if a.parentFD = fd; err != nil {
		a.parentFD = -1
	}
	if os.Getppid() != a.parent {
		return a, fmt.Errorf("gateway (pid %d) ended while its session started: nothing was started", a.parent)
	}
	return a, nil
}

// foreignChildren lists the children that a process has beside the supervisor: a shell may have started them, and then executed
// mcp-tether in its own place.
func (c *common) foreignChildren() (out []proc.ID) {
	of := c.above.anchor
	if of == 0 {
		of = c.above.supervisor
	}
	all, _ := c.reader.Descendants(of)
	for _, p := range all {
		if p.PPID == of && p.PID != c.above.supervisor {
			out = append(out, p.ID)
		}
	}
	return out
}
