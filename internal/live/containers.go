package live

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/kernel"
)

// engineDeadline is how long ps waits for the engines.
const engineDeadline = 500 * time.Millisecond

// inventory is what an engine has; known is false when the engine did not tell.
type inventory struct {
	have  map[string]*engine.Info
	known bool
	// session is one of those that use it.
	session *Session
}

// AddContainers fills in the containers of living sessions. What the engine does not answer in time is shown as the
// session noted it. Sessions that never touched their engine cost one search for a file.
func AddContainers(all []Session) {
	ctx, cancel := context.WithTimeout(context.Background(), engineDeadline)
	defer cancel()
	var (
		wait    sync.WaitGroup
		engines = map[string]*inventory{}
		ledgers = make([]engine.Ledger, len(all))
	)
	for i := range all {
		notes, _ := all[i].dir.Notes(all[i].noted())
		for _, n := range notes {
			ledgers[i].Add(n)
		}
		key := all[i].engineKey()
		if engines[key] == nil && len(ledgers[i].Objects()) > 0 {
			engines[key] = &inventory{session: &all[i]}
		}
	}
	for _, e := range engines {
		wait.Go(func() { e.askInTime(ctx) })
	}
	wait.Wait()
	for i := range all {
		if e := engines[all[i].engineKey()]; e != nil {
			all[i].Containers = e.containers(all[i].Engine, &ledgers[i])
		}
	}
}

// engineKey names the engine of a session, and the user that named it.
func (l *Session) engineKey() string {
	key := l.Engine + "\x00" + l.EngineContext + "\x00" + strconv.Itoa(l.UID)
	if l.EnginePodman {
		key += "\x00podman"
	}
	return key
}

// askInTime is ask, for an engine whose socket may be on a file system that does not answer.
func (e *inventory) askInTime(ctx context.Context) {
	asked := *e
	// A dial that an inspection begins late has a deadline of its own, and a list that is there must not be lost to it.
	if kernel.InTime(3*engineDeadline, func() { asked.ask(ctx) }) {
		*e = asked
	}
}

// ask reads what the engine has. Another user's record may name a unix socket only: for everything else a command would
// have to be started.
func (e *inventory) ask(ctx context.Context) {
	l := e.session
	at, err := engine.EndpointAt(l.Engine, l.EngineContext, l.EnginePodman)
	if err != nil || at.Socket == "" && l.UID != os.Getuid() {
		return
	}
	client := engine.Client{Dial: func() (net.Conn, error) { return at.Dial(engineDeadline, waitLater) }}
	have, err := client.Containers(ctx)
	e.known, e.have = err == nil, make(map[string]*engine.Info, len(have))
	for i := range have {
		e.have[have[i].ID] = &have[i]
	}
}

// waitLater waits for the command through which an engine elsewhere is reached: ps --watch starts one for each list.
func waitLater(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		go func() { _, _ = p.Wait() }()
	}
}

// containers are those that a session made.
func (e *inventory) containers(url string, l *engine.Ledger) (out []describe.Container) {
	for _, o := range l.Objects() {
		i := e.have[o.ID]
		if o.Kind != engine.Container || e.known && i == nil {
			continue
		}
		c := describe.Container{Engine: url, Kind: engine.Container, ID: o.ID, Name: o.Name, State: describe.UnknownState}
		if i != nil {
			c.Name, c.Image, c.State = i.Name, i.Image, i.State
		}
		out = append(out, c)
	}
	return out
}
