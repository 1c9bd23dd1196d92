package supervise

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// onDisk is what is written down of a session, and what the record has to say in the end.
type onDisk struct {
	lease  *session.Lease // nil where no record can be kept
	record session.Record
	// leafLeft says that a cgroup stays behind; the record names it for `reap`.
	leafLeft bool
}

// openRecord takes the lease before the server is started. Without a record the session runs all the same, but `reap` and
// `ps` cannot see it.
func (c *common) openRecord() {
	dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err == nil {
		// It stays open for as long as the session lasts.
		c.lease, err = dir.Take(c.id)
	}
	if err != nil {
		c.log.Warn().Err(err).Msg("session is not recorded: reap and ps will not see it")
	} else if c.page != nil {
		c.page.FD.Lock = c.lease.FD()
	}
}

// state is what the record says of the session.
func (s *Session) state() string {
	if s.cause != session.NoCause {
		return session.StateEnding
	}
	return session.StateRunning
}

// fillRecord fills in what is known of the session.
func (s *Session) fillRecord(state string) {
	r := &s.record
	r.Version, r.ID, r.Name, r.UID, r.State = session.Version, s.id, s.opts.Name, os.Getuid(), state
	r.Relations, r.Cause = s.opts.Relations, string(s.cause)
	r.NoHistory, r.KeepNothing = !s.opts.History, s.opts.KeepNothing
	if r.Started.IsZero() {
		r.Started = s.started.UTC()
		r.Args, r.Keep = session.Redact(s.opts.Command), s.opts.Keep
		r.Anchor, r.Supervisor = s.identity(s.above.anchor), s.identity(s.above.supervisor)
	}
	if r.Host == (proc.Host{}) {
		// The supervisor was killed before it had written the record.
		r.Host, _ = s.reader.ReadHost()
	}
}

// writeRecord writes the record, if there is one. What could not be written for want of room is written with the next state.
func (s *Session) writeRecord(state string) {
	if s.fillRecord(state); s.lease == nil {
		return
	}
	if err := s.lease.Write(s.record); err != nil {
		s.log.Warn().Err(err).Msg("session record not written")
	}
}

// identity is zero for a process that cannot be read, because a pid alone proves nothing.
func (c *common) identity(pid int) proc.ID {
	st, err := c.reader.Stat(pid)
	if err != nil {
		return proc.ID{}
	}
	return st.ID
}

// closeRecord removes the record, or leaves it for `reap` when a process or container is left, or a cgroup (leafLeft), or what
// belongs to people: it ends once it is not used any more, and shows till then.
func (s *Session) closeRecord(r *remains) {
	s.record.Kept = r.belongings
	switch {
	case s.lease == nil:
	case r.leaked, s.leafLeft:
		s.writeRecord(session.StateSurvived)
		s.lease.Release()
	case r.people:
		s.record.EngineUsed = false // The containers are gone. What is kept may reach the engine by the socket's name.
		s.writeRecord(session.StateKept)
		s.lease.Release()
	default:
		if err := s.lease.Remove(); err != nil {
			s.log.Warn().Err(err).Msg("session record not removed")
			return
		}
		s.log.Debug().Msg("session record removed")
	}
}

// dyingPause is how long a front that dies may need to let go of its record.
const dyingPause = 50 * time.Millisecond

// removeFront removes the record of a front that was killed: nothing of its session is left now. A living front holds its
// lease.
func (s *Session) removeFront() {
	if s.opts.Behind != "" && s.lease != nil && session.ValidID(s.opts.Behind) {
		err := s.lease.Dir().Remove(s.opts.Behind)
		if errors.Is(err, session.ErrHeld) && (s.cause == session.CauseStdout || s.cause == session.CauseGateway || s.cause == session.CauseAnchor) {
			// It may be just dying: its pipes close first.
			proc.Poll([]unix.PollFd{{Fd: int32(s.above.parentFD), Events: unix.POLLIN}}, dyingPause)
			_ = s.lease.Dir().Remove(s.opts.Behind)
		}
	}
}
