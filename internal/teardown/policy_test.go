package teardown

import (
	"fmt"
	"testing"
	"time"
)

// node is a place in the search: all of a machine that the past can influence.
type node struct {
	m          Machine
	now        time.Time
	terminated int // how often Terminate was asked for
	killed     int
	depth      int
	path       string
}

// graces are the grace periods under which the whole policy is searched, zero among them.
func graces() []Grace {
	return []Grace{
		{5 * time.Second, 1500 * time.Millisecond, time.Second, 5 * time.Second},
		{time.Second, time.Second, 3 * time.Second, time.Second},
		{0, 0, 0, 0},
		{time.Second, 0, 0, time.Second},
		{0, time.Hour, time.Millisecond, time.Nanosecond},
	}
}

// deep is enough: the longest way through the states has 4 moves. After 8 events every place repeats an earlier one but
// for its clock; TestSearchIsExhaustive makes sure of that.
const deep = 8

// search visits breadth-first whatever can be reached by events at moments before, at and after the deadline.
func search(t *testing.T, grace Grace, visit func(from, to node, ev Event, do Action)) {
	t.Helper()
	type key struct {
		state              State
		left               time.Duration
		due, began         bool
		terminated, killed int
	}
	begin := time.Unix(1000, 0)
	queue := []node{{m: Machine{Grace: grace}, now: begin}}
	seen := map[key]bool{}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if n.depth == deep {
			continue
		}
		for ev := range events {
			for _, wait := range []time.Duration{0, time.Millisecond, time.Minute} {
				next := n
				next.now, next.depth = n.now.Add(wait), n.depth+1
				next.path += fmt.Sprintf(" %d+%v", ev, wait)
				do := next.m.Step(next.now, ev)
				next.count(do)
				visit(n, next, ev, do)
				k := key{next.m.State, next.m.Deadline.Sub(next.now), next.m.Deadline.IsZero(), next.m.Began.IsZero(), next.terminated, next.killed}
				if !seen[k] {
					seen[k] = true
					queue = append(queue, next)
				}
			}
		}
	}
}

func (n *node) count(do Action) {
	switch do {
	case Terminate:
		n.terminated++
	case Kill:
		n.killed++
	case Nothing:
	}
}

func TestPolicyInvariants(t *testing.T) {
	for _, grace := range graces() {
		steps := 0
		search(t, grace, func(from, to node, ev Event, do Action) {
			steps++
			bad := func(what string) {
				t.Errorf("%s: state %d, event %d -> state %d, action %d (by%s)", what, from.m.State, ev, to.m.State, do, to.path)
			}
			if to.m.State < from.m.State {
				bad("a way back")
			}
			if from.m.State == Done && (to.m != from.m || do != Nothing) {
				bad("Done is not final")
			}
			if to.m.State == from.m.State && to.m != from.m && !(ev == OwnerGone && from.m.State == Ending) {
				bad("a repeated request moved the clock")
			}
			if to.m.State == from.m.State && to.m.Deadline.After(from.m.Deadline) {
				bad("the deadline was put off")
			}
			if to.terminated > 1 || to.killed > 1 {
				bad("an action was asked for twice")
			}
			if do == Kill && to.terminated != 1 {
				bad("Kill without Terminate before it")
			}
			if do == Terminate && to.m.State != Ending || do == Kill && to.m.State != Killing {
				bad("an action in another state")
			}
			if to.m.State != from.m.State && (to.m.State == Ending && do != Terminate || to.m.State == Killing && do != Kill) {
				bad("a state without its action")
			}
			if ev == TreeEmpty && to.m.State != Done {
				bad("an empty tree did not end it")
			}
			to.checkClock(from, ev, bad)
		})
		if steps < 100 {
			t.Errorf("only %d steps were searched", steps)
		}
	}
}

// checkClock compares deadline and beginning with the state.
func (n node) checkClock(from node, ev Event, bad func(string)) {
	timed := n.m.State == Draining || n.m.State == Ending || n.m.State == Killing
	if timed == n.m.Deadline.IsZero() {
		bad("deadline and state disagree")
	}
	if (n.m.State == Running) != n.m.Began.IsZero() {
		bad("beginning and state disagree")
	}
	if !from.m.Began.IsZero() && n.m.Began != from.m.Began {
		bad("the beginning moved")
	}
	if n.m.State == from.m.State || !timed {
		return
	}
	grace := map[State]time.Duration{Draining: n.m.Grace.EOF, Ending: n.m.Grace.Term, Killing: n.m.Grace.Kill}[n.m.State]
	if n.m.State == Ending && (ev == OwnerGone || ev == ServerExited) {
		grace = n.m.Grace.Gone
	}
	if want := n.now.Add(grace); !n.m.Deadline.Equal(want) {
		bad("the deadline is not the grace from now")
	}
}

// From every state of a teardown, timers alone end it, within the sum of all graces.
func TestEveryPathEndsByTimers(t *testing.T) {
	for _, grace := range graces() {
		search(t, grace, func(_, to node, _ Event, _ Action) {
			m, now := to.m, to.now
			if m.State == Running {
				return
			}
			for range states {
				if m.Deadline.After(now) {
					now = m.Deadline
				}
				if m.State != Done && !m.Due(now) {
					t.Fatalf("state %d is not due at its deadline", m.State)
				}
				m.Step(now, TimeUp)
			}
			if m.State != Done {
				t.Fatalf("ends in state %d (by%s)", m.State, to.path)
			}
			if limit := to.now.Add(grace.EOF + max(grace.Term, grace.Gone) + grace.Kill); now.After(limit) {
				t.Fatalf("ends %v too late (by%s)", now.Sub(limit), to.path)
			}
		})
	}
}

// One event deeper nothing new turns up: the search has seen all.
func TestSearchIsExhaustive(t *testing.T) {
	var last int
	type place struct {
		state              State
		terminated, killed int
	}
	first := map[place]int{}
	search(t, graces()[0], func(_, to node, _ Event, _ Action) {
		p := place{to.m.State, to.terminated, to.killed}
		if _, ok := first[p]; !ok {
			first[p] = to.depth
			last = max(last, to.depth)
		}
	})
	if last >= deep-1 {
		t.Errorf("a new place turned up after %d events: search deeper", last)
	}
	for s := Draining; s < states; s++ {
		reached := false
		for p := range first {
			reached = reached || p.state == s
		}
		if !reached {
			t.Errorf("state %d was never reached", s)
		}
	}
}

// A forgotten entry of the table would be {Running, Nothing}. That is a way back in every row but the first. In the
// first row it drops the event. Only a timer may be dropped there, since none is set.
func TestTableHasNoGap(t *testing.T) {
	for s := range states {
		for ev := range events {
			if table[s][ev] == (move{}) && (s != Running || ev != TimeUp) {
				t.Errorf("state %d, event %d is missing", s, ev)
			}
		}
	}
}

// The orders of events that real gateways cause, as named examples of what was searched above.
func TestPolicyExamples(t *testing.T) {
	type step struct {
		after time.Duration
		ev    Event
		do    Action
		state State
	}
	const ms = time.Millisecond
	for name, steps := range map[string][]step{
		"server exits alone":          {{0, TreeEmpty, Nothing, Done}},
		"EOF, then it ends":           {{0, StdinClosed, Nothing, Draining}, {90 * ms, TreeEmpty, Nothing, Done}},
		"EOF is ignored":              {{0, StdinClosed, Nothing, Draining}, {5000 * ms, TimeUp, Terminate, Ending}, {1500 * ms, TimeUp, Kill, Killing}, {5000 * ms, TimeUp, Nothing, Done}},
		"EOF, then the gateway dies":  {{0, StdinClosed, Nothing, Draining}, {9 * ms, OwnerGone, Terminate, Ending}, {1000 * ms, TimeUp, Kill, Killing}},
		"TERM, then the gateway dies": {{0, MustEnd, Terminate, Ending}, {9 * ms, OwnerGone, Nothing, Ending}, {1000 * ms, TimeUp, Kill, Killing}},
		"leftovers of the server":     {{0, ServerExited, Terminate, Ending}, {1000 * ms, TimeUp, Kill, Killing}, {ms, TreeEmpty, Nothing, Done}},
		"Ctrl-C twice":                {{0, Insist, Terminate, Ending}, {ms, Insist, Kill, Killing}, {ms, Insist, Nothing, Killing}},
		"INT, TERM from a gateway":    {{0, MustEnd, Terminate, Ending}, {100 * ms, MustEnd, Nothing, Ending}, {ms, StdinClosed, Nothing, Ending}},
	} {
		m, now := Machine{Grace: graces()[0]}, time.Unix(5, 0)
		for i, s := range steps {
			now = now.Add(s.after)
			if s.ev == TimeUp && !m.Due(now) {
				t.Errorf("%s, step %d: not due", name, i)
			}
			if do := m.Step(now, s.ev); do != s.do || m.State != s.state {
				t.Errorf("%s, step %d: action %d, state %d; want %d, %d", name, i, do, m.State, s.do, s.state)
			}
		}
	}
}

func TestDue(t *testing.T) {
	var m Machine
	now := time.Unix(5, 0)
	if m.Due(now) {
		t.Error("due without a deadline")
	}
	m.Grace.EOF = time.Second
	m.Step(now, StdinClosed)
	for after, want := range map[time.Duration]bool{0: false, time.Second - 1: false, time.Second: true, time.Hour: true} {
		if got := m.Due(now.Add(after)); got != want {
			t.Errorf("after %v: %v", after, got)
		}
	}
}
