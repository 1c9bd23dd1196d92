package e2e

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Both wrappers are killed at once, and no process is left to look after the tree. One sweep ends what can be proven.

// pairTree is a tree, and whether a sweep can prove all of it without a cgroup.
type pairTree struct {
	root     string
	children []string
	proven   bool
}

var pairTrees = []pairTree{
	{"serve", []string{"daemon", "setsid", "pgrp/plain"}, true},
	{"serve,ignore-term", []string{"daemon,ignore-term", "setsid,closefds,chdir", "daemon/setsid"}, true},
	{"serve,ignore-eof", []string{"daemon/daemon*2", "chain=5", "setsid/daemon,closefds"}, true},
	{"serve", []string{"daemon,closefds,clearenv,chdir", "setsid"}, false},
	{"serve,ignore-term", []string{"setsid,clearenv/daemon", "daemon,clearenv/plain"}, false},
}

// Each round kills at another moment: while the session starts, and when it is up.
func TestReapAfterPairKilled(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	from := newSeed(t)
	for n := range testkit.Rounds(12) {
		tree := pairTrees[from.IntN(len(pairTrees))]
		cgroup := []string{"auto", "off"}[from.IntN(2)]
		up, gatewayDies := from.IntN(2) == 0, from.IntN(3) == 0
		after := from.between(0, 60*time.Millisecond)
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Logf("cgroup=%s up=%v after=%v gateway dies=%v %s", cgroup, up, after, gatewayDies, tree.root)
			s := startGateway(t).newSession()
			s.shareRuntime()
			s.Spawn(setup{Flags: quick("--cgroup=" + cgroup)}, node(s.Dir, tree.root, tree.children...)...)
			if up {
				s.WaitReady()
			}
			pause(after)
			if gatewayDies {
				freeze(t, s.PID)
				s.gw.Kill()
			}
			killPair(t, s.PID)
			if gatewayDies {
				s.gw.Kill()
			}
			// What they had forked, and has executed nothing yet, dies with them.
			testkit.Until(t, "none of ours", func() bool { return len(s.Wrappers()) == 0 })
			tree.sweep(t, s, cgroup != "off" && nestable())
		})
	}
}

// nestable tells whether a session can have a cgroup here.
func nestable() bool { _, err := stage.WritableCgroup(); return err == nil }

// sweep expects that one pass leaves nothing, or only what cannot be proven.
func (p pairTree) sweep(t *testing.T, s *session, cgroup bool) {
	t.Helper()
	// A child that was forked just before has the lease until it executes the server. In the midst of that no descriptor is to be
	// seen any more, and the lock is still held.
	records, _ := filepath.Glob(filepath.Join(s.Runtime, "mcp-tether", "*.json"))
	for _, record := range records {
		s.ok(stage.WaitFree(record, testkit.Patience))
	}
	r := operator.reap(t, 0, "--kill")
	for _, f := range r.Findings {
		if f.Class != "record" {
			t.Errorf("by %s, want by its record: %v", f.Class, f)
		}
	}
	if p.proven || cgroup {
		s.swept()
	} else {
		p.unproven(t, s)
	}
	if t.Failed() {
		t.Logf("the sweep: %v, warnings %v", r.Findings, r.Warnings)
	}
	if again := operator.reap(t, 0); len(again.Findings) > 0 {
		t.Errorf("a second sweep found %v", again.Findings)
	}
}

// unproven expects that a process that cleared its environment is reported when its command line is known, and lives.
func (p pairTree) unproven(t *testing.T, s *session) {
	t.Helper()
	for _, p := range s.Members() {
		if strings.Contains(p.Args, " fork ") { // of a double fork, the first child ends by itself
			testkit.Until(t, p.String()+" to end", func() bool { return !lives(p) })
		}
	}
	left := append(s.Members(), stage.Holders(s.Flock)...)
	match := "--match=fixture node " + s.Dir
	if len(left) == 0 {
		return // it was not up yet, or is descended from one that could be proven
	}
	found := operator.reap(t, 1, match)
	// The tree may still be starting.
	left = slices.DeleteFunc(left, func(p proc) bool { return !lives(p) })
	operator.reap(t, 1, match, "--kill", "--unwrapped")
	for _, p := range left {
		if f, ok := found.about(p.PID); !ok || f.Class != "suspect" {
			t.Errorf("%v was reported as %v, want suspect", p, f)
		}
		if !lives(p) {
			t.Errorf("%v was killed without proof: now %v", p, stage.Describe(p.PID))
		}
	}
	s.EndAll()
}

// lives reports whether a process is what it was.
func lives(p proc) bool {
	now := stage.Describe(p.PID)
	return now.Args == p.Args && now.State != "Z"
}

// A tree that forks all the time is never all in one look. Its mark tells which processes belong to it.
func TestReapForkingTree(t *testing.T) {
	if !onOwnHost(t, "family=") {
		return
	}
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: resisting("--cgroup=off")}, node(s.Dir, "serve,ignore-term", "setsid,family=4", "daemon,respawn")...)
	s.WaitReady()
	other := startInnocent(t, 0)
	killPair(t, s.PID)
	r := operator.reap(t, -1, "--kill")
	for n := 0; r.code == 2 && n < 10; n++ {
		r = operator.reap(t, -1, "--kill") // A process that is just forking may be unknown to a pass, which says so.
	}
	if r.code != 0 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	s.swept()
	other.wantAlive(t, "the sweep")
	if t.Failed() {
		t.Logf("the sweep: %v", r.Findings)
	}
}
