package supervise

import (
	"errors"

	"golang.org/x/sys/unix"

	container "mcp-tether/internal/engine"
	"mcp-tether/internal/engine/keeper"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// keeping are the options of the session's side of a container engine.
func (c *common) keeping() keeper.Options {
	return keeper.Options{
		URL: c.opts.Engine, Session: c.hand.id, Attached: c.opts.Containers == ContainersAttached,
		Grace: c.opts.ContainerGrace, Limit: c.opts.removalLimit(), Log: c.log,
	}
}

// openEngine puts the proxy between the server and its container engine, if one is in sight. If that fails, a warning says
// so, and the session runs without the promise about containers.
func (t *tree) openEngine() {
	if t.opts.Containers == ContainersOff {
		return
	}
	e, err := keeper.Find(t.keeping())
	if err == nil && e == nil {
		if t.opts.Containers == ContainersAll {
			t.log.Warn().Msg("no container engine is in sight: containers will not end with this session")
		}
		return
	}
	if err == nil {
		err = e.Open(t.directory(), searchPath())
	}
	if err != nil {
		ev := t.log.Warn().Err(err)
		var none *keeper.NoSocketError
		if errors.As(err, &none) {
			ev = ev.Str("engine", none.URL)
		}
		ev.Msg("containers will not end with this session")
		return
	}
	t.engine = e
	e.Record(&t.record)
}

// adoptEngine takes over an open engine, and waits for its first client.
func (t *tree) adoptEngine(dir *session.Directory, listener int) {
	t.engine = keeper.Adopt(t.keeping(), &t.record, dir, listener, func() { _, _, _ = t.members.Members() })
	if t.engine != nil && listener >= 0 {
		t.polled.add(clients, listener, unix.POLLIN)
	}
}

// serveEngine starts the proxy: its first client has connected. Without an engine there is nothing to connect to.
func (t *tree) serveEngine() {
	if t == nil || t.engine == nil || t.engine.Listener() < 0 {
		return
	}
	t.polled.remove(clients)
	t.engine.Serve(t.labels())
}

// labels are what all creates of the session have in common.
func (c *common) labels() map[string]string {
	mark := func(id proc.ID) string { return proc.GlobalID{ID: id, Host: c.record.Host}.String() }
	out := map[string]string{
		container.LabelSession:    c.hand.id,
		container.LabelGateway:    mark(c.record.Gateway),
		container.LabelSupervisor: mark(c.identity(c.hand.supervisor)),
	}
	// The identity of a dead anchor would say nothing.
	if id := c.identity(c.hand.anchor); !id.Zero() {
		out[container.LabelAnchor] = mark(id)
	}
	if id := container.MachineID(); id != "" {
		out[container.LabelMachine] = id
	}
	return out
}

// shutEngine begins to remove what the session made, while its processes end.
func (t *tree) shutEngine() {
	if t.engine != nil {
		t.polled.remove(clients)
		t.engine.Shut()
	}
}

// closeEngine waits for the removal, which is bounded. e may be nil.
func (c *common) closeEngine(e *keeper.Keeper) keeper.Removal {
	if e == nil {
		return keeper.Removal{}
	}
	c.polled.remove(clients)
	r := e.Close()
	c.reportLeft(r)
	return r
}

func (c *common) reportLeft(r keeper.Removal) {
	if r.Err != nil {
		c.log.Error().Err(r.Err).Msg("containers may be left: mcp-tether reap looks again")
	}
}
