package supervise

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// The owners are the processes whose end ends the session: the anchor, the process that spawned us, and the gateway if that
// is another one. Where the kernel has pidfds, the poll set holds one for each owner.

// watchOwners watches for the end of the owners, and notes their identities in the record.
func (s *Session) watchOwners() {
	if s.hand.Anchor > 0 {
		s.watchProcess(anchor, s.hand.Anchor)
	}
	if s.hand.ParentFD >= 0 {
		s.polled.add(parent, s.hand.ParentFD, unix.POLLIN)
	} else if s.hand.Parent > 0 {
		s.ownersAt = time.Now()
	}
	s.record.Parent.PID = s.hand.Parent
	if st, err := s.reader.Stat(s.hand.Parent); err == nil {
		s.record.Parent = st.ID
	}
	g := proc.Gateway(s.hand.Parent, proc.ProgramName(), s.reader.Stat, s.reader.Args)
	if g.PID == 0 {
		s.record.Gateway = s.record.Parent
		return
	}
	s.record.Gateway = g.ID
	if g.PID != s.hand.Parent {
		s.watchProcess(gateway, g.PID)
	}
}

func (s *Session) watchProcess(as source, pid int) {
	fd, err := proc.OpenPidfd(pid)
	switch {
	case err == nil:
		s.polled.add(as, fd, unix.POLLIN)
	case errors.Is(err, proc.ErrGone):
		s.end(causeOf(as))
	default:
		s.ownersAt = time.Now()
	}
}

// checkOwners checks whether the owners are still the same processes.
func (s *Session) checkOwners(now time.Time) {
	s.ownersAt = now.Add(proc.LookPause)
	if lost := s.causeOfLostOwner(); lost != noCause {
		s.ownersAt = time.Time{}
		s.end(lost)
	}
}

// causeOfLostOwner is the cause for an owner that is gone, noCause while all live.
func (c *common) causeOfLostOwner() cause {
	ours := os.Getppid()
	if c.hand.Anchor == 0 {
		if ours != c.hand.Parent {
			return causeGateway
		}
	} else if ours != c.hand.Anchor {
		return causeAnchor
	} else if st, err := c.reader.Stat(c.hand.Anchor); err == nil && st.PPID != c.hand.Parent {
		return causeGateway
	}
	// A gateway behind a launcher.
	g := c.record.Gateway
	if st, err := c.reader.Stat(g.PID); g != c.record.Parent && (errors.Is(err, proc.ErrGone) || err == nil && st.ID != g) {
		return causeGateway
	}
	return noCause
}
