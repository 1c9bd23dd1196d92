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

// owner is one of them, and what its end is a source of.
type owner struct {
	proc.Owner
	as source
}

// watchOwners watches for the end of the owners, and notes their identities in the record.
func (s *Session) watchOwners() {
	if s.hand.Anchor > 0 {
		o, err := s.reader.Watch(s.hand.Anchor)
		o.Child = os.Getpid()
		s.watchOwner(anchor, o, err)
	}
	up := proc.Owner{ID: proc.ID{PID: s.hand.Parent}, FD: s.hand.ParentFD, Child: s.hand.Anchor}
	if s.hand.Anchor == 0 {
		up.Child = os.Getpid()
	}
	if st, err := s.reader.Stat(s.hand.Parent); err == nil {
		up.ID, up.Comm = st.ID, st.Comm
	}
	if s.hand.Parent > 0 {
		s.watchOwner(parent, up, nil)
	}
	s.record.Parent, s.record.Gateway, s.record.GatewayComm = up.ID, up.ID, up.Comm
	if g, behind, err := s.reader.WatchGateway(s.hand.Parent); behind {
		s.record.Gateway, s.record.GatewayComm = g.ID, g.Comm
		s.watchOwner(gateway, g, err)
	}
}

func (s *Session) watchOwner(as source, o proc.Owner, err error) {
	switch {
	case errors.Is(err, proc.ErrGone):
		s.end(causeOf(as))
	case o.FD >= 0:
		s.polled.add(as, o.FD, unix.POLLIN)
	default:
		s.asked = append(s.asked, owner{o, as})
		s.ownersAt = time.Now()
	}
}

// checkOwners asks for the owners without a pidfd.
func (s *Session) checkOwners(now time.Time) {
	s.ownersAt = now.Add(proc.LookPause)
	for _, o := range s.asked {
		if s.reader.Ended(o.Owner) {
			s.ownersAt = time.Time{}
			s.end(causeOf(o.as))
			return
		}
	}
}
