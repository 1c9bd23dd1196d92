package live

import (
	"context"
	"os"
	"strconv"
	"sync"

	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
)

// inventory is what an engine has of sessions.
type inventory struct {
	have     []engine.Object
	answered bool
	// session is one of those that use it.
	session *Session
}

// AddContainers fills in the containers of living sessions, as far as their engines answer in time. Sessions that never
// touched their engine cost nothing.
func AddContainers(all []Session) {
	ctx, cancel := context.WithTimeout(context.Background(), proc.GlanceTime)
	defer cancel()
	var wait sync.WaitGroup
	engines := map[string]*inventory{}
	for i := range all {
		if key := all[i].engineKey(); engines[key] == nil && all[i].EngineUsed {
			engines[key] = &inventory{session: &all[i]}
		}
	}
	for _, e := range engines {
		wait.Go(func() { e.askInTime(ctx) })
	}
	wait.Wait()
	for i := range all {
		if e := engines[all[i].engineKey()]; e != nil {
			all[i].Containers, all[i].silent = e.containers(&all[i]), all[i].EngineUsed && !e.answered
		}
	}
}

// engineKey names the engine of a session, and the user that named it.
func (l *Session) engineKey() string { return l.Engine + "\x00" + strconv.Itoa(l.UID) }

// askInTime is ask, for an engine whose socket may be on a file system that does not answer.
func (e *inventory) askInTime(ctx context.Context) {
	asked := *e
	if proc.InTime(2*proc.GlanceTime, func() { asked.ask(ctx) }) {
		*e = asked
	}
}

// ask reads what the engine has. Another user's record may name a unix socket only.
func (e *inventory) ask(ctx context.Context) {
	l := e.session
	at, err := engine.EndpointAt(l.Engine)
	if err != nil || at.Socket == "" && l.UID != os.Getuid() {
		return
	}
	e.have, err = engine.Client{Dial: at.Dial}.Labelled(ctx, "")
	e.answered = err == nil
}

// containers are those that a session made.
func (e *inventory) containers(l *Session) (out []display.Container) {
	id := l.ID
	if l.behind != "" {
		id = l.behind
	}
	for _, o := range e.have {
		if o.Kind == engine.Container && o.Labels[engine.LabelSession] == id {
			out = append(out, display.Container{Engine: l.Engine, Kind: o.Kind, ID: o.ID, Name: o.Name, Image: o.Image, State: o.State})
		}
	}
	return out
}
