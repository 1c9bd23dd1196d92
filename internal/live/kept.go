package live

import (
	"strings"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// left is what is left of a session that is over because it belongs to people, a line for each process; nothing once that has ended.
func (m *meter) left(s *session.Stored) (out []Session) {
	for _, k := range s.Kept {
		why := strings.TrimPrefix(k.What, session.Kept)
		if !teardown.IsPeoples(why) || m.r.Life(k.ID) != proc.Alive {
			continue
		}
		p, err := m.r.Stat(k.PID)
		if err != nil {
			continue
		}
		l := Session{Record: s.Record, dir: s.Dir, Kept: why}
		l.Server, l.Args, l.Cause, l.Behind = k.ID, []string{k.Command}, "", ""
		m.begin(&l, k.ID)
		m.add(&l, p, 0)
		m.addBelow(&l, p.PID, 0)
		out = append(out, l)
	}
	return out
}
