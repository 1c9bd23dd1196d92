package relay

import (
	"time"

	"mcp-tether/internal/mcp/mux"
)

// State is what another relay needs to go on with a client that has no server and waits for nothing. It can be written as JSON.
type State struct {
	Mux mux.State
	// Spoke says that a server has written something, and Used is when a message that matters last passed.
	Spoke bool
	Used  time.Time
}

// State gives the state of the relay. It is not ok where something is under way: a server, bytes for the client or of it, the end of a
// stream, or a client that does not speak in lines.
func (r *Relay) State() (s State, ok bool) {
	if r.mode != modeServerless || r.speech == speechRaw || r.closed || r.final || r.client.Broken || r.ClientWaits() || r.client.Waiting()+r.stderr.Waiting() > 0 {
		return s, false
	}
	return State{Mux: r.mux.State(), Spoke: r.spoke, Used: r.used}, true
}

// Resume makes a relay that goes on where another was. It has no server.
func Resume(fromClient, toClient Stream, limit int64, s State) *Relay {
	r := New(fromClient, toClient, limit, s.Used)
	r.mux = mux.Resume(only, s.Mux)
	r.spoke, r.mode = s.Spoke, modeServerless
	if s.Spoke || s.Mux.Initialize != "" {
		r.speech = speechLines
	}
	return r
}
