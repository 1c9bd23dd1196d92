package reap

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"mcp-tether/engine"
	"mcp-tether/session"
)

// showContainers is how long ps waits for the engines.
const showContainers = 500 * time.Millisecond

// AddContainers fills in the containers of living sessions. What the engine does not tell in time is shown as the
// session noted it. Sessions that never touched their engine cost one look for a file.
func AddContainers(all []Live) {
	ctx, cancel := context.WithTimeout(context.Background(), showContainers)
	defer cancel()
	var (
		wait    sync.WaitGroup
		engines = map[string]*Engine{}
		ledgers = make([]engine.Ledger, len(all))
	)
	for i := range all {
		l := &all[i]
		notes, _ := session.ReadNotes(l.dir, l.ID)
		for _, n := range notes {
			ledgers[i].Add(n)
		}
		if len(ledgers[i].Objects())+len(ledgers[i].Started()) == 0 || engines[l.engineKey()] != nil {
			continue
		}
		e := &Engine{Err: errNotSocket}
		engines[l.engineKey()] = e
		if at, err := engine.EndpointAt(l.Engine, l.EngineContext); err == nil && (at.Socket != "" || l.UID == os.Getuid()) {
			e.Client = engine.Client{Dial: func() (net.Conn, error) { return at.Dial(showContainers, nil, reapLater) }}
			wait.Go(func() { e.Have, e.Err = e.Client.Containers(ctx) })
		}
	}
	wait.Wait()
	for i := range all {
		if e := engines[all[i].engineKey()]; e != nil {
			all[i].Containers = shown(all[i].Engine, e, &ledgers[i])
		}
	}
}

// engineKey names the engine that a session talks to, and who may have named it.
func (l *Live) engineKey() string {
	return l.Engine + "\x00" + l.EngineContext + "\x00" + strconv.Itoa(l.UID)
}

// reapLater waits for the client through which an engine elsewhere is reached: ps may show it again and again.
func reapLater(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		go func() { _, _ = p.Wait() }()
	}
}

// shown are the containers of one session: those it made and those it started, as far as they are there.
func shown(url string, e *Engine, l *engine.Ledger) []FoundContainer {
	there := make(map[string]*engine.Info, len(e.Have))
	for i := range e.Have {
		there[e.Have[i].ID] = &e.Have[i]
	}
	var out []FoundContainer
	add := func(kind engine.Kind, id, name string, running bool) {
		i := there[id]
		switch {
		case e.Err != nil:
			out = append(out, FoundContainer{Engine: url, Kind: kind, ID: id, Name: name, State: unknownState})
		case i != nil && (i.Running || !running):
			out = append(out, FoundContainer{Engine: url, Kind: kind, ID: id, Name: i.Name, Image: i.Image, State: i.State})
		}
	}
	for _, o := range l.Objects() {
		if o.Kind == engine.Container {
			add(o.Kind, o.ID, o.Name, false)
		}
	}
	for _, s := range l.Started() {
		add(engine.Container, s.ID, "", true)
	}
	return out
}
