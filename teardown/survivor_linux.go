package teardown

import (
	"syscall"

	"mcp-tether/proc"
)

// Survivor is a member that could not be ended, for the closing log event.
type Survivor struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
	UID  int    `json:"uid"`
	// Why says what stood in the way.
	Why string `json:"why"`
}

// Survivors names the given members, left after the last SIGKILL.
func (s *Scope) Survivors(members []proc.Stat) []Survivor {
	out := make([]Survivor, 0, len(members))
	for _, m := range members {
		uid, _ := proc.UID(m.PID)
		out = append(out, Survivor{m.PID, m.Comm, uid, s.why(m)})
	}
	return out
}

// Unclear names the processes of the last look that were left alone, and may be the session's all the same: they were
// started after it began, have fallen to Root, and cannot be told from what a foreign child has started.
func (s *Scope) Unclear() []Survivor {
	out := make([]Survivor, 0, len(s.unclear))
	for _, p := range s.unclear {
		uid, _ := proc.UID(p.PID)
		out = append(out, Survivor{p.PID, p.Comm, uid, "left alone: it cannot be told from what was started before the session"})
	}
	return out
}

func (s *Scope) why(m proc.Stat) string {
	if err := s.reader.Signal(m.ID, syscall.SIGKILL); err != nil {
		return err.Error()
	}
	if m.State == 'D' {
		return "in uninterruptible sleep (state D): it ends when the kernel lets it"
	}
	return "still ending after SIGKILL"
}
