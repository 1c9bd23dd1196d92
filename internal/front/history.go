package front

import (
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// past is what the history says of the session. What each start of the server has come to, the session behind has written.
func (f *front) past() session.Past {
	return session.Past{
		ID: f.record.ID, Gateway: f.record.Gateway, GatewayComm: f.record.GatewayComm,
		Shown:   session.Shown{Name: f.o.Name, Started: f.clock.started.UTC(), Args: session.Redact(f.o.Command)},
		OfFront: session.OfFront{Sleeps: f.record.Sleeps, Restarts: f.record.Restarts, Stderr: f.relay.LastWords().Lines()},
	}
}

// writeHistory writes the session into the history of its user.
func (f *front) writeHistory(code int) {
	if !f.o.History {
		return
	}
	p := f.past()
	p.Cause, p.Exit, p.Seconds = string(f.cause), code, time.Since(f.clock.started).Round(time.Millisecond).Seconds()
	if f.cause == session.CauseSignal {
		p.Signal = unix.SignalName(f.bySignal)
	}
	if err := p.Append(); err != nil {
		f.log.Debug().Err(err).Msg("not in the history")
	}
}

// prepareEnd is what the waiter needs to end the session while the server sleeps.
func (f *front) prepareEnd() waiting.Closing {
	c := waiting.Closing{
		Quiet: f.log.GetLevel() > zerolog.InfoLevel, Directory: -1, File: session.HistoryFile, Age: time.Since(f.clock.started),
	}
	if f.lease != nil {
		c.Record = f.lease.Files()[0]
	}
	if !f.o.History {
		return c
	}
	p := f.past()
	var err error
	if c.Past, c.Directory, err = p.Draft(); err != nil {
		f.log.Debug().Err(err).Msg("not in the history if it ends asleep")
	}
	return c
}
