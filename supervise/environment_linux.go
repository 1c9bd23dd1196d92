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
// before main, so the anchor puts it in front, and the supervisor takes it away for the server.

const oneProcessor = "GOMAXPROCS=1"

// supervisorEnv is the supervisor's environment: ours, and the setting before it. The runtime takes the first of two.
func supervisorEnv(env []string) []string {
	return append([]string{oneProcessor}, env...)
}

// ownEnviron is the environment that the gateway gave.
func (s *Session) ownEnviron() []string {
	env := proc.Environ()
	if s.hand.Anchor > 0 && len(env) > 0 && env[0] == oneProcessor {
		return env[1:]
	}
	return env
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

// environ is the server's environment: ours byte for byte, and the two marks. A mark to be kept that we inherited was
// meant for us and not for everything below.
func (s *Session) environ() []string {
	own := s.ownEnviron()
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
