package front

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/session"
)

// tell writes the session into the history of its user. What each start of the server has come to, the session behind has
// written.
func (f *front) tell(code int) {
	if !f.o.History {
		return
	}
	p := session.Past{
		ID: f.record.ID, Name: f.o.Name, Gateway: f.record.Gateway, GatewayComm: f.record.GatewayComm, Started: f.clock.started.UTC(),
		Args: session.Redact(f.o.Command), Sleeps: f.record.Sleeps, Restarts: f.record.Restarts, Stderr: f.relay.LastWords().Lines(),
		Outcome: session.Outcome{Cause: string(f.cause), Exit: code},
	}
	p.Seconds = time.Since(f.clock.started).Round(time.Millisecond).Seconds()
	if f.bySignal != 0 && f.cause == session.CauseSignal {
		p.Signal = unix.SignalName(f.bySignal)
	}
	if err := p.Append(); err != nil {
		f.log.Debug().Err(err).Msg("not in the history")
	}
}
