package front

import (
	"maps"
	"slices"
	"testing"
)

// world is what the table's actions do to a session. It says whether there is a backend, whether messages pass, and
// whether a client waits for a server that cannot be had.
type world struct {
	state       phase
	backend     bool
	pass        bool
	owed, ended bool
}

// after is the world after an event. Events that cannot happen there are reported as such: a backend is gone only once,
// and only a server that is there answers a handshake.
func (w world) after(ev event) (next world, possible bool) {
	switch ev {
	case onIdle:
		possible = (w.state == awake || w.state == trying) && !w.ended
	case onGone:
		possible = w.backend
	case onCrash:
		possible = w.state == awake
	case onRestart:
		possible = (w.state == awake || w.state == trying) && !w.ended
	case onRestored, onUnasked, onFailed, onAnswered:
		possible = w.state == waking && w.backend || (ev == onAnswered || ev == onFailed) && w.state == trying
	case onUnstarted:
		possible = w.state == waking && w.backend
	default:
		possible = true
	}
	if !possible {
		return w, false
	}
	if ev == onGone || ev == onUnstarted {
		w.backend = false
	}
	switch w.state.step(ev) {
	case letFall:
		w.pass = false
	case wake:
		w.backend, w.owed = true, true
	case resume:
		w.pass, w.owed = true, false
	case forget:
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
	first := world{state: awake, backend: true, pass: true}
	seen := map[world][]event{first: nil}
	for queue := []world{first}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		for ev := range events {
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

func checkPhase(t *testing.T, before, w world, path []event) {
	t.Helper()
	serves := w.state == awake || w.state == trying
	for _, c := range []struct {
		broken bool
		what   string
	}{
		{w.state == same, "no phase"},
		{w.state == asleep && w.backend, "asleep with a backend"},
		{w.pass && !serves && w.state != over, "messages pass to a server that is not awake"},
		{serves && !w.ended && !w.pass, "awake, and messages do not pass"},
		{serves && !w.backend, "awake without a backend"},
		{w.owed && w.state == asleep, "asleep, and a client waits for ever"},
		{before.state == over && w.state != over, "back from the end"},
		{w.ended != (w.state == over), "ended and over are not the same"},
		{before.backend && !w.backend && path[len(path)-1] != onGone && path[len(path)-1] != onUnstarted, "a backend is gone that nobody has ended"},
		{!before.backend && w.backend && before.state != asleep, "a second backend beside the first"},
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
