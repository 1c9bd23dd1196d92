package supervise

import (
	"math"
	"runtime/debug"
	"strings"

	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// A supervisor sleeps nearly all of its life, and there are as many as there are sessions: it runs with one processor of
// the Go scheduler, which saves it two threads and a tenth of its memory. The setting is read from the environment
// before main, so the anchor gives it, and the server gets the original back.

const oneProcessor = "GOMAXPROCS=1"

// supervisorEnv is the supervisor's environment, and what the server's must have in its place.
func supervisorEnv(env []string) (out, restore []string) {
	out = make([]string, 0, len(env)+1)
	for _, e := range env {
		if strings.HasPrefix(e, "GOMAXPROCS=") {
			restore = append(restore, e)
			continue
		}
		out = append(out, e)
	}
	return append(out, oneProcessor), restore
}

// undoSupervisorEnv gives the environment that supervisorEnv was given.
func undoSupervisorEnv(env, restore []string) []string {
	out := make([]string, 0, len(env)+2)
	for _, e := range env {
		if e != oneProcessor {
			out = append(out, e)
		}
	}
	return append(out, restore...)
}

// pauseGC stops the collector's regular wake-ups, every two minutes without it. A session allocates hardly anything while
// it waits; the limit has the collector run when it does.
func pauseGC() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
}

// resumeGC undoes pauseGC for a supervisor that has work: a busy engine's streams and bodies may need more than the limit.
func resumeGC() {
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(math.MaxInt64)
}

// memoryLimit is far above what a session needs, in bytes.
const memoryLimit = 32 << 20

// environ is the server's environment: ours, and the two marks. A mark to be kept that we inherited was meant for us and
// not for everything below.
func (s *Session) environ(own []string) []string {
	if s.hand.Anchor > 0 {
		own = undoSupervisorEnv(own, s.hand.Restore)
	}
	out := make([]string, 0, len(own)+2)
	for _, e := range own {
		name, _, _ := strings.Cut(e, "=")
		if name == session.EnvID || name == session.EnvGateway || e == teardown.KeepMark {
			continue
		}
		out = append(out, e)
	}
	if e := s.tree.engine; e != nil {
		out = e.endpoint.Environ(out, e.socket)
	}
	host, err := s.reader.ReadHost()
	if err != nil {
		s.degrade(err)
	}
	s.record.Host = host
	return append(out, session.EnvID+"="+s.hand.ID, session.EnvGateway+"="+proc.GlobalID{ID: s.record.Gateway, Host: host}.String())
}
