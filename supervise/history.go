package supervise

import (
	"fmt"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// tell writes the session into the history of its user. It comes last, when nothing is left to end and the anchor knows the
// exit code. A history that cannot be written is no trouble of the session.
func (s *Session) tell(r *remains) {
	if !s.opts.History {
		return
	}
	s.fillRecord(session.StateEnding)
	p := s.record.Past(r.Outcome)
	p.PeakBytes = proc.PeakOfChildren()
	if err := p.Append(); err != nil {
		s.log.Debug().Err(err).Msg("not in the history")
	}
}

// left says what could not be ended.
func (r *remains) left() (all []string) {
	for _, v := range r.survivors[:min(len(r.survivors), maxNames)] {
		all = append(all, fmt.Sprintf("pid %d (%s): %s", v.PID, v.Comm, v.Why))
	}
	if r.removed.Err != nil {
		all = append(all, r.removed.Err.Error())
	}
	if more := len(r.survivors) - maxNames; more > 0 || r.unseen {
		all = append(all, "further processes")
	}
	return all
}
