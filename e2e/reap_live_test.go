package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
)

// Living sessions are never touched, wherever their records lie and whoever sweeps.

// liveTree has four members that hold the lifeline, as the wrapper's own two processes do, and one that holds the lock.
var liveTree = []string{"serve", "daemon", "setsid", "pgrp", "daemon,closefds,clearenv"}

// The program may have another name, and the record may be out of reach or missing.
func TestReapSparesLiveSessions(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, c := range []struct {
		flags               []string
		user                int
		renamed, unrecorded bool
	}{
		{flags: []string{"--cgroup=auto"}},
		{flags: []string{"--cgroup=off"}, user: nobody},
		{flags: []string{"--cgroup=off"}, renamed: true},
		{flags: []string{"--cgroup=off"}, unrecorded: true},
	} {
		t.Run(fmt.Sprintf("%q/uid=%d/renamed=%v/unrecorded=%v", c.flags, c.user, c.renamed, c.unrecorded), func(t *testing.T) {
			s := startGatewayAs(t, c.user).newSession()
			argv := s.Wrap(polite(c.flags...), node(s.Dir, liveTree[0], liveTree[1:]...)...)
			if c.renamed {
				argv[0] = filepath.Join(s.Dir, "keeper")
				copyProgram(t, tether, argv[0])
			}
			if c.unrecorded {
				s.ok(os.WriteFile(s.recordDir(), nil, 0o600))
			}
			s.Spawn(setup{Bare: true}, argv...)
			s.WaitReady()
			sparesAll(t, s, 7-len(c.flags))
		})
	}
}

// sparesAll sweeps as root and as the session's user, from where the record can be seen and from where it cannot.
func sparesAll(t *testing.T, s *session, members int) {
	t.Helper()
	settle(t)
	for _, c := range []caller{operator, {uid: s.gw.UID, runtime: s.Runtime}} {
		r := c.reap(t, 0, "--kill", "--unwrapped", s.match())
		if len(r.Findings) > 0 {
			t.Errorf("%+v found %v", c, r.Findings)
		}
	}
	if !s.whole(members) {
		t.Errorf("it was touched: %v", append(s.Members(), stage.Holders(s.Flock)...))
	}
	s.gw.Kill()
	s.WaitDead()
}

// settle makes leaves as old as they must be for a sweep to look at them.
func settle(t *testing.T) {
	t.Helper()
	outgrow(t)
	past := time.Now().Add(-time.Hour)
	for _, leaf := range allLeaves() {
		// A leaf may go meanwhile, with its session.
		if err := os.Chtimes(leaf, past, past); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
