package supervise

import (
	"golang.org/x/sys/unix"

	container "mcp-tether/internal/engine"
	"mcp-tether/internal/engine/keeper"
	"mcp-tether/internal/proc"
)

// keeping are the options of the session's side of a container engine.
func (c *common) keeping() keeper.Options {
	return keeper.Options{
		URL: c.opts.Engine, Session: c.id, Limit: c.opts.removalLimit(), Log: c.log,
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
		err = e.Open()
	}
	if err != nil {
		t.log.Warn().Err(err).Msg("containers will not end with this session")
		return
	}
	t.engine = e
	e.Record(&t.record)
}

// adoptEngine takes over an open engine, and waits for its first client.
func (t *tree) adoptEngine(listener int) {
	t.engine = keeper.Adopt(t.keeping(), &t.record, listener)
	if t.engine != nil && listener >= 0 {
		t.polled.add(clients, listener, unix.POLLIN)
	}
}

// serveEngine starts the proxy: its first client has connected. Whoever ends the session learns first that there may be
// containers. Without an engine there is nothing to connect to.
func (s *Session) serveEngine() {
	t := s.tree
	if t.engine == nil || t.engine.Listener() < 0 {
		return
	}
	t.polled.remove(clients)
	s.record.EngineUsed = true
	if s.page != nil {
		_ = s.passOn() // It has fitted before.
	}
	s.writeRecord(s.state())
	t.engine.Serve(t.labels())
	t.awaitMade()
}

// awaitMade waits until a client makes a container.
func (t *tree) awaitMade() {
	if fd := t.engine.News(); fd >= 0 {
		t.polled.add(made, fd, unix.POLLIN)
	}
}

// noteMade writes down when a client made a container, for a front that looks whether the server has work in it.
func (s *Session) noteMade() {
	if t := s.tree; t.engine != nil {
		s.record.ContainerAt = t.engine.MadeAt()
		s.writeRecord(s.state())
		t.awaitMade()
	}
}

// labels are what all creates of the session have in common.
func (c *common) labels() map[string]string {
	mark := func(id proc.ID) string { return proc.GlobalID{ID: id, Host: c.record.Host}.String() }
	out := map[string]string{
		container.LabelSession:    c.id,
		container.LabelGateway:    mark(c.record.Gateway),
		container.LabelSupervisor: mark(c.identity(c.above.supervisor)),
	}
	// The identity of a dead anchor would say nothing.
	if id := c.identity(c.above.anchor); !id.Zero() {
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

// closeEngine waits for the removal, which is bounded. kept says that processes go on, which know the proxy's address.
func (t *tree) closeEngine(kept bool) (r keeper.Removal) {
	if t.engine == nil {
		return r
	}
	t.polled.remove(clients)
	t.polled.remove(made)
	if r = t.engine.Close(kept); r.Err != nil {
		t.log.Error().Err(r.Err).Msg("containers may be left: mcp-tether reap looks again")
	}
	return r
}
