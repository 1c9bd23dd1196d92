package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Living sessions are never touched, wherever their records lie and whoever sweeps.

func TestReapSparesLiveSessions(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, cgroup := range []string{"auto", "off"} {
		for _, flag := range []string{"", "--no-anchor"} {
			for _, user := range []int{0, nobody} {
				t.Run(strings.Join([]string{"cgroup=" + cgroup, flag, "uid=" + strconv.Itoa(user)}, "/"), func(t *testing.T) {
					flags := polite("--cgroup=" + cgroup)
					if flag != "" {
						flags = append(flags, flag)
					}
					s := startGatewayAs(t, user).tree(setup{flags: flags}, liveTree[0], liveTree[1:]...)
					s.waitReady()
					sparesAll(t, s, 6-len(flag)/len("--no-anchor"))
				})
			}
		}
	}
}

// Members that hold the lifeline: two of the wrapper, the server, three of its children.
var liveTree = []string{"serve", "daemon", "setsid", "pgrp", "daemon,closefds,clearenv"}

// sparesAll sweeps in all ways, from where the record can be seen and from where it cannot.
func sparesAll(t *testing.T, s *session, members int) {
	t.Helper()
	settle(t)
	for _, c := range []caller{operator, {runtime: s.runtime}, {uid: s.gw.uid}, {uid: s.gw.uid, runtime: s.runtime}, {uid: nobody}} {
		for _, args := range [][]string{{"--kill"}, {"--kill", "--unwrapped", s.match()}} {
			r := c.reap(t, 0, args...)
			if len(r.Findings) > 0 {
				t.Errorf("%+v with %q found %v", c, args, r.Findings)
			}
		}
	}
	if !s.whole(members) {
		t.Errorf("it was touched: %v", append(s.members(), holders(s.flock)...))
	}
	s.gw.kill()
	s.waitDead()
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

// The binary may have another name, and the record may be out of reach.
func TestReapSparesRenamed(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, cgroup := range []string{"auto", "off"} {
		for _, flag := range []string{"--eof-grace=20s", "--no-anchor"} {
			t.Run("cgroup="+cgroup+"/"+flag, func(t *testing.T) {
				s := startGateway(t).newSession()
				other := filepath.Join(s.dir, "keeper")
				copyProgram(t, tether, other)
				argv := s.wrap(polite("--cgroup="+cgroup, flag), node(s.dir, liveTree[0], liveTree[1:]...)...)
				argv[0] = other
				s.spawn(setup{bare: true}, argv...)
				s.waitReady()
				members := 6
				if flag == "--no-anchor" {
					members--
				}
				sparesAll(t, s, members)
			})
		}
	}
}

// A session that cannot keep a record lives as well as any other.
func TestReapSparesUnrecorded(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, cgroup := range []string{"auto", "off"} {
		for _, flag := range []string{"--eof-grace=20s", "--no-anchor"} {
			t.Run("cgroup="+cgroup+"/"+flag, func(t *testing.T) {
				s := startGateway(t).newSession()
				s.ok(os.WriteFile(s.recordDir(), nil, 0o600))
				s.spawn(setup{flags: polite("--cgroup="+cgroup, flag)}, node(s.dir, liveTree[0], liveTree[1:]...)...)
				s.waitReady()
				members := 6
				if flag == "--no-anchor" {
					members--
				}
				sparesAll(t, s, members)
			})
		}
	}
}

// A sweep while a session ends in its own time does not end it sooner.
func TestReapDuringTeardown(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, cgroup := range []string{"auto", "off"} {
		t.Run("cgroup="+cgroup, func(t *testing.T) {
			s := startGateway(t).newSession()
			s.shareRuntime()
			s.spawn(setup{flags: []string{"--cgroup=" + cgroup, "--term-grace=20s"}}, node(s.dir, "serve,ignore-eof,ignore-term", "daemon,ignore-term", "setsid")...)
			s.waitReady()
			s.gw.kill()
			s.awaitState(t, "ending")
			awaitTrue(t, "the end of what obeys", func() bool { return len(holders(s.life.path)) <= 2 })
			for range 5 {
				if r := operator.reap(t, 0, "--kill", "--term-grace=0s"); len(r.Findings) > 0 {
					t.Errorf("found %v", r.Findings)
				}
			}
			left := holders(s.life.path)
			if len(left) != 2 {
				t.Errorf("of the server and the daemon there are %v: they were ended, or their grace was over before the last sweep", left)
			}
			for _, p := range left {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			s.waitDead()
			s.endedWhole(deathCauses...)
			if left := s.records(); len(left) > 0 {
				t.Errorf("records left: %v", left)
			}
		})
	}
}

// Of two passes that end processes one works, the other says so; both at once never do harm.
func TestTwoReapsAtOnce(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for range 5 {
		s := startGateway(t).newSession()
		s.shareRuntime()
		s.spawn(setup{flags: resisting()}, node(s.dir, "serve,ignore-term", "daemon,ignore-term", "setsid")...)
		s.waitReady()
		killPair(t, s.pid)
		outs := atOnce(t, 3, "reap", "--json", "--kill", "--term-grace=500ms")
		done := 0
		for _, o := range outs {
			switch {
			case o.code == 0:
				done++
			case o.code != 2 || !strings.Contains(o.stderr, "another reap is under way"):
				t.Errorf("exit code %d, %s%s", o.code, o.stdout, o.stderr)
			}
		}
		if done == 0 {
			t.Errorf("nobody swept: %v", outs)
		}
		s.swept()
	}
}

// Lists do not exclude each other.
func TestListsAtOnce(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, o := range atOnce(t, 4, "reap", "--json") {
		if o.code != 0 {
			t.Errorf("exit code %d, %s", o.code, o.stderr)
		}
	}
}

func atOnce(t *testing.T, n int, args ...string) []outcome {
	t.Helper()
	outs := make([]outcome, n)
	var all sync.WaitGroup
	for i := range n {
		cmd := operator.command(args...)
		all.Add(1)
		go func() {
			defer all.Done()
			outs[i] = finish(t, cmd)
		}()
	}
	all.Wait()
	return outs
}

// Processes that come and go during the look do not disturb it.
func TestReapAmidChange(t *testing.T) {
	if !onOwnHost(t, "family=") {
		return
	}
	s := startGateway(t).tree(setup{flags: resisting()}, "serve", "setsid,family=8")
	s.waitReady()
	for range rounds(10) {
		if r := operator.reap(t, 0, "--kill", "--unwrapped", s.match()); len(r.Findings) > 0 {
			t.Errorf("found %v", r.Findings)
		}
	}
	if !strings.Contains(s.ask(`{"id":7,"method":"ping"}`), `"id":7`) {
		t.Error("the server is gone")
	}
	_ = syscall.Kill(s.pid, syscall.SIGTERM)
	s.waitDead()
}
