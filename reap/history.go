package reap

import (
	"os"
	"time"

	"mcp-tether/internal/session"
)

// Tell writes the user's sessions that a pass has ended into the history, in which no supervisor could write them any more. If
// one cannot be written, the rest is left out as well: each may take seconds.
func Tell(findings []Finding) {
	for i := range findings {
		f := &findings[i]
		r := f.stored
		if f.Class != classRecord || !f.over() || f.UID != os.Getuid() || r == nil || r.Started.IsZero() || r.NoHistory {
			continue
		}
		p := session.Past{
			ID: r.ID, Name: r.Name, Behind: r.Behind, Gateway: r.Gateway, GatewayComm: r.GatewayComm, Started: r.Started, Args: r.Args,
			Seconds: time.Since(r.Started).Round(time.Second).Seconds(), Sleeps: r.Sleeps, Restarts: r.Restarts, Reaped: true,
			Outcome: session.Outcome{Cause: string(session.CauseSupervisor), Exit: -1, Ended: len(f.Members), Containers: len(f.Containers)},
		}
		if p.Append() != nil {
			return
		}
	}
}
