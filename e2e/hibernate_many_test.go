package e2e

import "testing"

// many is how many sessions sleep at once here, fewer in a short run; scripts/bench does it with 500, and measures.
func many() int {
	if testing.Short() {
		return 20
	}
	return 120
}

// Many sessions asleep under one gateway: no servers, none wakes for another's message, and all end with the gateway.
func TestManySleepers(t *testing.T) {
	g := startGateway(t)
	all := make([]*session, many())
	for i := range all {
		all[i] = g.newSession()
		all[i].spawn(setup{flags: sleepy()}, fixture, "mcp", all[i].dir, "-", "0", "serve", "daemon")
	}
	for _, s := range all {
		s.greet()
	}
	for _, s := range all {
		s.asleep(1)
		s.ids = s.records()
	}
	for _, s := range all {
		if left := s.members(); len(left) != 1 {
			t.Errorf("session %s sleeps with %v", s.name, left)
		}
	}
	one := all[len(all)/2]
	one.hold(1)
	// The control: a session with a server, which a call keeps awake, shows it.
	if there := one.members(); len(there) != 1+wrapperProcesses+2 {
		t.Errorf("the woken session has %v", there)
	}
	one.letGo(1)
	one.asleep(2)
	for _, s := range all {
		if r := s.sleeper(); s != one && (r.State != "asleep" || r.Sleeps != 1 || r.Wakes != 0 || r.Server.PID != 0) {
			t.Errorf("session %s: %+v", s.name, r)
		}
	}
	g.kill()
	for _, s := range all {
		s.gone()
	}
}

// wrapperProcesses are those of a session, beside its front: the anchor and the supervisor.
const wrapperProcesses = 2
