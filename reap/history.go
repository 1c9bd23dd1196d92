package reap

import (
	"os"

	"mcp-tether/internal/session"
)

// AddToHistory writes the user's sessions that a pass has ended into the history, in which no supervisor could write them any more. If
// one cannot be written, the rest is left out as well: each may take seconds.
func AddToHistory(findings []Finding) {
	for i := range findings {
		f := &findings[i]
		if f.Class != classRecord || !f.over() || f.UID != os.Getuid() || f.stored == nil || f.stored.Started.IsZero() || f.stored.NoHistory {
			continue
		}
		r := &f.stored.Record
		if r.State == session.StateKept && len(f.fates) == 0 {
			continue // What it had kept has ended by itself.
		}
		p := r.Past(session.Outcome{Cause: string(session.CauseSupervisor), Exit: -1, Ended: len(f.Members), Processes: f.fates, Containers: len(f.Containers)})
		p.Reaped = true
		if r.State == session.StateKept {
			p.Cause = r.Cause
		}
		if p.Append() != nil {
			return
		}
	}
}
