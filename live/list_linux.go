package live

import (
	"os"
	"sort"

	"mcp-tether/describe"
	"mcp-tether/proc"
	"mcp-tether/session"
)

// List reads the living sessions that the user can see, eldest first. runtime is $XDG_RUNTIME_DIR.
func List(runtime string) ([]Session, error) {
	var r proc.Reader
	host, err := r.ReadHost()
	if err != nil {
		return nil, err
	}
	now, err := proc.Now()
	if err != nil {
		return nil, err
	}
	var out []Session
	for _, dir := range session.Dirs(os.Getuid(), runtime) {
		ids, _ := session.IDs(dir)
		for _, id := range ids {
			rec, err := session.Read(dir, id)
			if err != nil || rec.Host != host || rec.UID != os.Getuid() {
				continue
			}
			if held, err := session.Held(dir, id); err == nil && held {
				out = append(out, measure(&r, rec, dir, now))
			}
		}
	}
	// A generic sort of so large a type would add eight kilobytes to the program.
	sort.SliceStable(out, func(i, j int) bool { return out[i].Started.Before(out[j].Started) })
	return out, nil
}

// measure finds out what a session uses; now is in clock ticks since boot.
func measure(r *proc.Reader, rec session.Record, dir string, now uint64) Session {
	gateway := r.Life(rec.Gateway)
	l := Session{Record: rec, dir: dir, GatewayState: gateway.String()}
	if now > rec.Supervisor.Start {
		l.AgeSeconds = int64((now - rec.Supervisor.Start) / proc.TicksPerSecond)
	}
	if gateway == proc.Alive {
		l.GatewayCommand = session.Line(r.Args(rec.Gateway.PID))
	}
	if r.Life(rec.Supervisor) != proc.Alive {
		return l
	}
	below, _ := r.Descendants(rec.Supervisor.PID)
	depth := map[int]int{rec.Supervisor.PID: -1}
	for _, p := range below {
		depth[p.PID] = depth[p.PPID] + 1
		if p.Dead() {
			continue
		}
		m := describe.Memory(p.PID)
		l.Procs++
		l.MemoryBytes += m
		l.CPUPercent += describe.CPU(p.PID)
		l.Tree = append(l.Tree, Process{p.PID, p.PPID, depth[p.PID], m, session.Redact(r.Args(p.PID))})
	}
	return l
}
