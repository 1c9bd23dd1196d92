package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// What both processes of a session have left in an engine is found by a sweep.

// boxedDead is a session with four containers, or with as many as got there in time, whose wrappers were both killed.
func boxedDead(t *testing.T, e *engine, mark string, after time.Duration) *session {
	t.Helper()
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: quick(), Env: boxEnviron(e, s)}, fourRuns(t, e, mark)...)
	if after == 0 {
		e.awaitRunning(t, mark, 4)
	} else {
		pause(after)
	}
	s.IDs = []string{s.boxRecord()}
	killPair(t, s.PID)
	return s
}

// boxRecord waits for the record of a session among others'. Nothing but the record knows the server's pid.
func (s *session) boxRecord() string {
	s.t.Helper()
	found := ""
	testkit.Until(s.t, fmt.Sprintf("a record that names anchor %d", s.PID), func() bool {
		for _, id := range s.Records() {
			if s.Record(id).Anchor.PID == s.PID {
				found = id
			}
		}
		return found != ""
	})
	return found
}

// sweeper calls reap as the engine's user does.
func (e *engine) sweeper() caller { return caller{env: e.environ()} }

// The parts have one host and one engine, one after the other.
func TestReapEndsContainersOfTheDead(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	e := engineFor(t)
	t.Run("listed", e.listDead)
	t.Run("by label alone", e.reapByLabel)
	t.Run("kept", e.keepContainer)
	t.Run("rounds", e.reapRounds)
}

func (e *engine) reapRounds(t *testing.T) {
	others, from := newOthers(t, e), newSeed(t)
	for n := range testkit.Rounds(3) {
		// In every other round the kill comes while the containers start.
		after := time.Duration(0)
		if n%2 == 1 {
			after = from.between(30*time.Millisecond, 300*time.Millisecond)
		}
		mark := e.mark(t)
		s := boxedDead(t, e, mark, after)
		up := len(e.marked(t, mark))
		r := e.sweeper().reap(t, 0, "--kill")
		if left := e.marked(t, mark); len(left) > 0 {
			t.Fatalf("round %d, after %v: containers left: %v\n%s", n, after, left, r.stdout)
		}
		if after == 0 && up != 4 {
			t.Errorf("round %d: %d containers, want 4", n, up)
		}
		s.WaitDead()
		if got := s.Records(); !slices.Equal(got, others.living.IDs) {
			t.Errorf("round %d: records %v, want that of the living session only", n, got)
		}
		s.gw.Kill()
	}
	others.untouched(t)
}

// The control: nothing but the sweep ends them.
func (e *engine) listDead(t *testing.T) {
	mark := e.mark(t)
	s := boxedDead(t, e, mark, 0)
	for _, args := range [][]string{nil, {"--kill", "--containers=off"}} {
		r := e.sweeper().reap(t, 1, args...)
		if left := e.marked(t, mark); len(left) != 4 {
			t.Fatalf("%q: containers: %v, want four", args, left)
		}
		if args != nil {
			continue
		}
		if r.classes() != "record" || len(r.Findings[0].Containers) != 4 {
			t.Errorf("found %v, want a record with four containers", r.stdout)
		}
		for _, c := range r.Findings[0].Containers {
			if c.ID == "" || c.Kind != "container" || c.State != "running" || c.Engine != e.host || c.Result != "listed" {
				t.Errorf("found %+v", c)
			}
		}
	}
	e.sweeper().reap(t, 0, "--kill")
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
	s.swept()
}

// The record is gone as well: the labels alone tell whose they were.
func (e *engine) reapByLabel(t *testing.T) {
	mark := e.mark(t)
	s := boxedDead(t, e, mark, 0)
	files, _ := filepath.Glob(filepath.Join(s.Runtime, "mcp-tether", "*"))
	for _, f := range files {
		s.ok(os.Remove(f))
	}
	s.EndAll()
	r := e.sweeper().reap(t, 0, "--kill")
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("containers left: %v\n%s", left, r.stdout)
	}
	if r.classes() != "container" && r.classes() != "cgroup container" {
		t.Errorf("found %q, want containers:\n%s", r.classes(), r.stdout)
	}
}

// bystander starts a container without a session.
func (e *engine) bystander(t *testing.T, mark string, words ...string) string {
	t.Helper()
	args := append([]string{"run", "-d", "-i", "--network", "none", "--label", markLabel + "=" + mark, e.image(t), "boxed"}, words...)
	o := e.docker(t, args...)
	if o.code != 0 {
		t.Fatalf("start a container: %s", o.stderr)
	}
	return strings.TrimSpace(o.stdout)
}

// others are what a sweep must leave alone: a container without a session, and one of a session that lives.
type others struct {
	e      *engine
	mark   string
	before map[string]running
	living *session
}

func newOthers(t *testing.T, e *engine) *others {
	t.Helper()
	o := &others{e: e, mark: e.mark(t), before: map[string]running{}}
	e.bystander(t, o.mark, "ignore-eof", "seconds=600")
	o.living = startGateway(t).newSession()
	o.living.shareRuntime()
	in := order{e: e, dir: o.living.Dir, image: e.image(t), mark: o.mark, words: []string{"ignore-eof", "seconds=600"}}
	o.living.Spawn(setup{Env: boxEnviron(e, o.living)}, launch("i").argv(t, in)...)
	o.living.waitBox()
	o.living.IDs = []string{o.living.boxRecord()}
	e.awaitRunning(t, o.mark, 2)
	for _, c := range e.marked(t, o.mark) {
		o.before[c.ID], _ = e.state(t, c.ID)
	}
	return o
}

func (o *others) untouched(t *testing.T) {
	t.Helper()
	for id, before := range o.before {
		if now, _ := o.e.state(t, id); now != before || !now.Running {
			t.Errorf("a container of others was touched: %+v, and now %+v", before, now)
		}
	}
	if len(o.before) != 2 {
		t.Errorf("%d containers of others, want 2", len(o.before))
	}
	o.living.gw.Kill()
	o.living.WaitDead()
}

// A container with the label that keeps it goes on, however its session ends and whoever looks for what is left: nothing
// says that it is left. The one beside it ends.
func (e *engine) keepContainer(t *testing.T) {
	for _, killed := range []bool{false, true} {
		mark := e.mark(t)
		s := startGateway(t).newSession()
		s.shareRuntime()
		argv := func(words ...string) []string {
			return order{e: e, image: e.image(t), mark: mark, with: words, words: []string{"ignore-eof"}}.dockerRun(t, "-d")
		}
		server := quote(argv("--label=mcp-tether.keep=1")) + "; " + quote(argv("--label=mcp-tether.keep=0")) + "; exec cat"
		s.Spawn(setup{Flags: quick(), Env: boxEnviron(e, s)}, "/bin/sh", "-c", server)
		e.awaitRunning(t, mark, 2)
		s.IDs = []string{s.boxRecord()}
		if killed {
			killPair(t, s.PID)
			e.sweeper().reap(t, 0, "--kill")
		} else {
			s.gw.Kill()
		}
		s.swept()
		left := e.marked(t, mark)
		if len(left) != 1 || left[0].State != "running" || left[0].Labels["mcp-tether.keep"] != "1" {
			t.Errorf("killed: %v: left: %v, want the kept one", killed, left)
		}
		if r := e.sweeper().reap(t, 0); len(r.Findings) > 0 {
			t.Errorf("reap finds %v", r.Findings)
		}
	}
}
