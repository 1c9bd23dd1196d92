package supervise

import (
	"strings"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// ownEnviron is the environment that the gateway gave. The anchor has put a setting of the Go runtime in front of it.
func (c *common) ownEnviron() []string {
	env := proc.Environ()
	if c.hand.Anchor > 0 {
		return proc.WithoutOneProcessor(env)
	}
	return env
}

// environ is the server's environment: ours byte for byte, and the variables of the mark: two, and with --keep a third.
// MCP_TETHER_KEEP=1 in our own environment was meant for us, not for everything below, so it is left out.
func (t *tree) environ() []string {
	own := t.ownEnviron()
	out := make([]string, 0, len(own)+3)
	for _, e := range own {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case session.EnvID, session.EnvGateway, session.EnvKept, session.EnvShared, session.EnvBehind:
			continue
		}
		if e == teardown.KeepMark {
			continue
		}
		out = append(out, e)
	}
	if e := t.engine; e != nil {
		out = e.Environ(out)
	}
	host, err := t.reader.ReadHost()
	if err == nil || t.record.Host.Boot == "" {
		t.record.Host = host // A boot without a pid namespace proves more than neither.
	}
	if err != nil {
		t.log.Warn().Err(err).Msg("ps may not show this session, and reap may not end what is left of it")
	}
	out = append(out, session.EnvID+"="+t.hand.ID, session.EnvGateway+"="+proc.GlobalID{ID: t.record.Gateway, Host: t.record.Host}.String())
	if len(t.opts.Keep) > 0 {
		// The last one: a process that writes its title over its environment loses the mark before the patterns.
		out = append(out, session.EnvKept+"="+teardown.JoinKeep(t.opts.Keep))
	}
	return out
}
