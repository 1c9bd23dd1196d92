package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// deathCauses are those of a dying gateway. The kernel closes its pipes, then ends its last threads, and tells of its
// death after that. In between, the supervisor may see the ends of the streams, and all of the tree may end by them.
var deathCauses = []string{"gateway-gone", "stdin-closed", "stdout-closed", "server-exited"}

// escapees are the children of every tree here.
var escapees = []string{"daemon", "setsid,closefds,clearenv,chdir", "plain/pgrp"}

// pause lets time pass where the moment itself is tested: a random one, or one that a client was seen to choose. It
// also does so where a clock is waited for, or between two looks. Nothing is expected to have happened meanwhile.
func pause(d time.Duration) { <-time.After(d) }

// quiet lets time pass in which something must not happen, where no event would tell of it. The test looks afterwards
// whether all is as it was. On a busy machine it may look too early, which makes the test miss something, but never
// fail.
func quiet(d time.Duration) { <-time.After(d) }

// seed is the source of a test's random choices.
type seed struct{ *rand.Rand }

func newSeed(t *testing.T) seed {
	t.Helper()
	return seed{rand.New(rand.NewPCG(testkit.Seed(t), 0))}
}

func (s seed) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.Int64N(int64(most-least)))
}

// The thread that spawned the wrapper ends, and the gateway lives on: nothing may happen.
func TestSpawningThreadEnds(t *testing.T) {
	t.Parallel()
	for _, stdio := range []string{"pipe", "socketpair"} {
		t.Run(stdio, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{Stdio: stdio, Flags: polite(), Keys: []string{"thread=own"}}, "serve", "daemon")
			s.gw.Call("endthread", s.Name)
			for range 200 { // longer than a wrapper needs to die of it
				if answer := s.Ask(`{"id":11,"method":"ping"}`); !strings.Contains(answer, `"id":11`) {
					t.Fatalf("answer %q", answer)
				}
			}
			if !s.whole(4) {
				t.Errorf("left of the session: %v", s.Members())
			}
			if events := s.Events("session ended"); len(events) > 0 {
				t.Errorf("the session has ended: %s", events)
			}
			s.gw.Kill()
			s.Gone()
			s.EndedWhole(deathCauses...)
		})
	}
}

// The control: a signal tied to the death of the parent, as the kernel offers it, does end the server.
func TestSpawningThreadEndsWithDeathSignal(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.Spawn(setup{Bare: true, Keys: []string{"thread=own", "pdeathsig=9"}}, node(s.Dir, "serve")...)
	s.WaitReady()
	s.gw.Call("endthread", s.Name)
	if end := s.Wait(); end != "signal 9" {
		t.Errorf("the server ended with %q", end)
	}
	s.WaitDead()
}

// stuckIn tells whether a thread of the process sleeps in a write to this descriptor.
func stuckIn(pid int, fd string) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	return slices.ContainsFunc(threads, func(path string) bool {
		// It reads "running" until the thread sleeps.
		now, _ := os.ReadFile(path)
		return strings.HasPrefix(string(now), strconv.Itoa(unix.SYS_WRITE)+" 0x"+fd+" ")
	})
}

// ending is a way to end a session.
type ending struct {
	name   string
	end    func(*session)
	causes []string
}

var endings = []ending{
	{name: "gateway killed", end: func(s *session) { s.gw.Kill() }, causes: deathCauses},
	{name: "stdin closed", end: (*session).closeStdin, causes: []string{"stdin-closed", "server-exited"}},
	{name: "wrapper terminated", end: signals(syscall.SIGTERM), causes: []string{"signal"}},
}

// stuckEnds are reasons to end that a stuck supervisor does not act on.
var stuckEnds = []ending{
	{name: "gateway killed", end: func(s *session) { s.gw.Kill() }},
	{name: "wrapper SIGTERM", end: signals(syscall.SIGTERM)},
}

// groupDeathCauses are those of a signal to the gateway's process group. The anchor is in it.
var groupDeathCauses = map[syscall.Signal][]string{
	syscall.SIGKILL: append([]string{"anchor-gone"}, deathCauses...),
	syscall.SIGTERM: append([]string{"signal"}, deathCauses...),
}

func killGroup(sig syscall.Signal) func(*session) {
	return func(s *session) { s.gw.SignalGroup(sig) }
}

// signals sends one after the other to what the gateway spawned.
func signals(all ...syscall.Signal) func(*session) {
	return func(s *session) {
		for _, sig := range all {
			s.Signal(sig)
		}
	}
}
