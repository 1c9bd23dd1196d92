package supervise

import (
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// tell writes the session into the history of its user. It comes last, when nothing is left to end and the anchor knows the
// exit code. A history that cannot be written is no trouble of the session.
func (s *Session) tell(r remains) {
	if !s.opts.History {
		return
	}
	s.fillRecord(session.StateEnding)
	p := s.record.Past(session.Outcome{
		Cause: string(s.cause), Exit: s.code, Ended: r.ended, Killed: r.killed, Names: r.names, Containers: r.removed.Count,
		Kept: len(r.kept), Processes: r.fates, OOMKills: r.oomKills, Left: r.left(), PeakBytes: proc.PeakOfChildren(),
	})
	if s.bySignal != 0 && s.cause == session.CauseSignal {
		p.Signal = unix.SignalName(s.bySignal)
	}
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
