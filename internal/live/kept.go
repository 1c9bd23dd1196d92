package live

import (
	"strings"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// left is what is left of a session that is over because it belongs to people, a line for each process; nothing once that has ended.
func left(r *proc.Reader, rec session.Record, dir *session.Directory, now uint64) (out []Session) {
	for _, k := range rec.Kept {
		why := strings.TrimPrefix(k.What, session.Kept)
		if !teardown.IsPeoples(why) || r.Life(k.ID) != proc.Alive {
			continue
		}
		p, err := r.Stat(k.PID)
		if err != nil {
			continue
		}
		l := Session{Record: rec, dir: dir, GatewayState: r.Life(rec.Gateway).String(), Kept: why}
		l.Server, l.Args, l.Cause, l.Behind = k.ID, []string{k.Command}, "", ""
		if now > k.Start {
			l.AgeSeconds = int64((now - k.Start) / proc.TicksPerSecond)
		}
		args := func(p proc.Stat) []string { words, _ := r.Args(p); return words }
		l.add(r, p, 0, now, args)
		l.addBelow(r, p.PID, 0, now, args)
		out = append(out, l)
	}
	return out
}
