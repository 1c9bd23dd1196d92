package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// nest makes a cgroup for a gateway, so that leaves of its sessions are found even when the test never learnt their
// ids. It is "" where there is no cgroup to be had; then there are no leaves either.
func nest(t *testing.T) string {
	t.Helper()
	own, err := stage.WritableCgroup()
	if err != nil {
		return ""
	}
	dir, err := os.MkdirTemp(own, "e2e-") //nolint:usetesting // a cgroup, not a temporary directory
	if err != nil {
		return ""
	}
	t.Cleanup(func() { clearNest(t, dir) })
	return dir
}

// clearNest expects no leaf, and removes the nest once the kernel has let go of the last dead process.
func clearNest(t *testing.T, dir string) {
	if t.Failed() {
		endNest(dir)
	}
	below, _ := os.ReadDir(dir)
	for _, e := range below {
		if e.IsDir() {
			t.Errorf("cgroup left: %s", e.Name())
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	testkit.Until(t, dir+" is empty", func() bool { return os.Remove(dir) == nil })
}

// endNest kills what a failed test has left: it may be a fork bomb. Where the cgroup has no file for that, it kills
// each process by itself, again and again.
func endNest(dir string) {
	for range 100 {
		if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
			return
		}
		all, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(all)) {
			if n, err := strconv.Atoi(pid); err == nil && n > 1 {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	}
}

// Several sessions below one gateway; a gateway, an anchor or a supervisor is killed at a random moment.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	for _, cgroup := range []string{"auto", "off"} {
		t.Run("cgroup="+cgroup, func(t *testing.T) {
			from := newSeed(t)
			for n := range testkit.Rounds(40) {
				c := newChance(from)
				t.Run(strconv.Itoa(n), func(t *testing.T) {
					t.Parallel()
					t.Log(c)
					c.round(t, "--cgroup="+cgroup, "--eof-grace=150ms", "--term-grace=150ms")
				})
			}
		})
	}
}

// groves are the trees of a round, one a session.
var groves = [][]string{
	{"serve", "daemon", "setsid"},
	{"serve,ignore-eof", "setsid,closefds,clearenv,chdir", "daemon/plain"},
	{"serve,ignore-term", "daemon,ignore-term", "pgrp/setsid*3"},
	{"serve", "setsid,subreaper/daemon*3", "setsid,respawn"},
}

// openings begin the teardown into which a kill falls.
var openings = []func(*session){
	(*session).closeStdin,
	(*session).closeStdout,
	func(s *session) { s.Signal(syscall.SIGTERM) },
	func(s *session) { _ = syscall.Kill(s.Server, syscall.SIGKILL) },
}

// chance is what one round does.
type chance struct {
	victim      int // the session
	role, phase string
	after       time.Duration
	opening     int
}

func newChance(from seed) chance {
	c := chance{
		victim:  from.IntN(len(groves)),
		role:    []string{"gateway", "anchor", "supervisor"}[from.IntN(3)],
		phase:   []string{"starting", "running", "ending"}[from.IntN(3)],
		opening: from.IntN(len(openings)),
	}
	if c.phase == "starting" { // By a signal, too, or it loses the process that prepares the server's start.
		c.role = []string{c.role, "starter", "asked to end"}[from.IntN(3)]
	}
	c.after = from.between(0, map[string]time.Duration{
		"starting": 60 * time.Millisecond, "running": 5 * time.Millisecond, "ending": 50 * time.Millisecond,
	}[c.phase])
	return c
}

func (c chance) String() string {
	return fmt.Sprintf("%s of %d %s after %v opening %d", c.role, c.victim, c.phase, c.after, c.opening)
}

func (c chance) round(t *testing.T, flags ...string) {
	g := startGateway(t)
	if dir := nest(t); dir != "" {
		ok(t, os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(g.PID)), 0))
	}
	var all []*session
	for i, grove := range groves {
		if i == c.victim && c.phase == "starting" {
			all = append(all, g.newSession())
			continue
		}
		s := g.tree(setup{Flags: flags}, grove[0], grove[1:]...)
		s.WaitReady()
		all = append(all, s)
	}
	v := all[c.victim]
	kill := c.prepare(v, setup{Flags: flags})
	pause(c.after)
	kill()
	if c.role != "gateway" {
		v.Gone()
		c.othersLive(t, all)
		g.Kill()
	}
	for _, s := range all {
		s.Gone()
		s.endedWell()
	}
}

// prepare brings the victim to the phase and returns the kill. The process to be killed is known by a pidfd: by then it
// may have ended, and its pid may belong to another process.
func (c chance) prepare(v *session, with setup) func() {
	if c.phase == "starting" {
		v.Spawn(with, node(v.Dir, groves[c.victim][0], groves[c.victim][1:]...)...)
	}
	kill := c.kill(v)
	if c.phase == "ending" {
		openings[c.opening](v)
	}
	return kill
}

func (c chance) kill(v *session) func() {
	victim := v.PID
	switch c.role {
	case "gateway":
		return v.gw.Kill
	case "asked to end":
		return func() { v.Signal(unix.SIGTERM) }
	case "starter":
		supervisor := firstChild(v.t, v.PID)
		return func() {
			for _, pid := range childrenOf(supervisor) { // It may be the server already, or nothing yet.
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			v.Signal(unix.SIGTERM)
		}
	case "supervisor":
		victim = firstChild(v.t, v.PID)
	}
	p := stage.Describe(victim)
	return func() { _ = p.Signal(unix.SIGKILL) }
}

// firstChild waits until the process has a child, of whichever of its threads.
func firstChild(t *testing.T, pid int) int {
	t.Helper()
	var all []int
	testkit.Until(t, fmt.Sprintf("a child of process %d", pid), func() bool {
		if stage.Describe(pid).Dead() {
			t.Fatalf("process %d is gone", pid)
		}
		all = childrenOf(pid)
		return len(all) > 0
	})
	return all[0]
}

func (c chance) othersLive(t *testing.T, all []*session) {
	t.Helper()
	for i, s := range all {
		if i != c.victim && !strings.Contains(s.Ask(`{"id":3,"method":"ping"}`), `"id":3`) {
			t.Errorf("session %s was touched", s.Name)
		}
	}
}

// endedWell expects at most one closing event, and none that tells of survivors. A session whose supervisor died on the
// way from removing the record to its last line has none.
func (s *session) endedWell() {
	s.t.Helper()
	if _, err := os.Stat(s.Log); err != nil {
		return
	}
	if events := s.Events("session ended"); len(events) > 0 {
		if c := s.Ended(); len(c.Survivors) > 0 || *c.Leaked {
			s.t.Errorf("survivors = %v, leaked = %v", c.Survivors, *c.Leaked)
		}
	}
}
