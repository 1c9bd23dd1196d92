package supervise

import (
	"maps"
	"slices"
	"testing"
)

// world is what the table's actions do to a session. It says whether there is a tree, whether messages pass, and
// whether a client waits for a server that cannot be had.
type world struct {
	state       phase
	tree, pass  bool
	owed, ended bool
}

// after is the world after an event. Events that cannot happen there are reported as such: a tree is gone only once,
// and only a server that is there answers a handshake.
func (w world) after(ev phaseEvent) (next world, possible bool) {
	switch ev {
	case onIdle:
		possible = (w.state == awake || w.state == trying) && !w.ended
	case onTreeGone:
		possible = w.tree
	case onCrash:
		possible = w.state == awake
	case onRestored, onUnasked, onFailed, onAnswered:
		possible = w.state == waking && w.tree || (ev == onAnswered || ev == onFailed) && w.state == trying
	case onUnstarted:
		possible = w.state == waking && w.tree
	default:
		possible = true
	}
	if !possible {
		return w, false
	}
	if ev == onTreeGone || ev == onUnstarted {
		w.tree = false
	}
	switch w.state.step(ev) {
	case putToSleep, hold, abandon:
		w.pass = false
	case wake:
		w.tree, w.owed = true, true
	case resume:
		w.pass, w.owed = true, false
	case sleep:
		w.owed = false
	case reportCrash:
		w.pass, w.owed = false, false
	case refuseWaiting:
		w.pass, w.owed = false, false
	case end:
		w.ended = true
	case carryOn:
	}
	return w, true
}

// Breadth-first over all that can happen.
func TestPhaseModel(t *testing.T) {
	first := world{state: awake, tree: true, pass: true}
	seen := map[world][]phaseEvent{first: nil}
	for queue := []world{first}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		for ev := range phaseEvents {
			next, possible := w.after(ev)
			if !possible {
				continue
			}
			path := append(slices.Clone(seen[w]), ev)
			checkPhase(t, w, next, path)
			if _, known := seen[next]; !known {
				seen[next] = path
				queue = append(queue, next)
			}
		}
	}
	for want := awake; want < phases; want++ {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(w world) bool { return w.state == want }) {
			t.Errorf("phase %v is never reached", want)
		}
	}
}

func checkPhase(t *testing.T, before, w world, path []phaseEvent) {
	t.Helper()
	serves := w.state == awake || w.state == trying
	for _, c := range []struct {
		broken bool
		what   string
	}{
		{w.state == same, "no phase"},
		{w.state == asleep && w.tree, "asleep with a tree"},
		{w.pass && !serves && w.state != over, "messages pass to a server that is not awake"},
		{serves && !w.ended && !w.pass, "awake, and messages do not pass"},
		{serves && !w.tree, "awake without a tree"},
		{w.owed && w.state == asleep, "asleep, and a client waits for ever"},
		{before.state == over && w.state != over, "back from the end"},
		{w.ended != (w.state == over), "ended and over are not the same"},
		{before.tree && !w.tree && path[len(path)-1] != onTreeGone && path[len(path)-1] != onUnstarted, "a tree is gone that nobody has ended"},
		{!before.tree && w.tree && before.state != asleep, "a second tree beside the first"},
	} {
		if c.broken {
			t.Errorf("%s after %v: %+v", c.what, path, w)
		}
	}
}

// In every phase, the event that ends the session leads to its end.
func TestEveryPhaseEnds(t *testing.T) {
	for p := awake; p < phases; p++ {
		state := p
		state.step(onEnd)
		if state != over {
			t.Errorf("phase %v goes to %v", p, state)
		}
	}
}
