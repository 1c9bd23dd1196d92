package supervise

import (
	"slices"
	"testing"
)

// world is what the table's actions do to a session: whether there is a tree, whether messages pass, and whether a client
// waits for a server that cannot be had.
type world struct {
	state       doze
	tree, pass  bool
	owed, ended bool
}

// after is the world after an event. Events that cannot happen there are reported as such: a tree is gone once, a
// handshake is answered by a server that is there.
func (w world) after(ev dozeEvent) (next world, possible bool) {
	switch ev {
	case idle:
		possible = w.state == awake && !w.ended
	case treeGone:
		possible = w.tree
	case restored, failed:
		possible = w.state == waking && w.tree
	default:
		possible = true
	}
	if !possible {
		return w, false
	}
	if ev == treeGone {
		w.tree = false
	}
	switch w.state.step(ev) {
	case letSleep:
		w.pass = false
	case start:
		w.tree, w.owed = true, true
	case resume:
		w.pass, w.owed = true, false
	case lieDown, apologise:
		w.owed = false
	case end:
		w.ended = true
	case carryOn, giveUp:
	}
	return w, true
}

// Breadth-first over all that can happen.
func TestDozeModel(t *testing.T) {
	first := world{state: awake, tree: true, pass: true}
	seen := map[world][]dozeEvent{first: nil}
	for queue := []world{first}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		for ev := range dozeEvents {
			next, possible := w.after(ev)
			if !possible {
				continue
			}
			path := append(slices.Clone(seen[w]), ev)
			checkDoze(t, w, next, path)
			if _, known := seen[next]; !known {
				seen[next] = path
				queue = append(queue, next)
			}
		}
	}
	for _, want := range []doze{awake, falling, asleep, waking, over} {
		if !slices.ContainsFunc(slices.Collect(keys(seen)), func(w world) bool { return w.state == want }) {
			t.Errorf("%v is never reached", want)
		}
	}
}

func keys(m map[world][]dozeEvent) func(func(world) bool) {
	return func(yield func(world) bool) {
		for w := range m {
			if !yield(w) {
				return
			}
		}
	}
}

func checkDoze(t *testing.T, before, w world, path []dozeEvent) {
	t.Helper()
	for _, c := range []struct {
		broken bool
		what   string
	}{
		{w.state == asleep && w.tree, "asleep with a tree"},
		{w.pass && w.state != awake && w.state != over, "messages pass to a server that is not awake"},
		{w.state == awake && !w.ended && !w.pass, "awake, and messages do not pass"},
		{w.state == awake && !w.tree, "awake without a tree"},
		{w.owed && w.state == asleep, "asleep, and a client waits for ever"},
		{before.state == over && w.state != over, "back from the end"},
		{w.ended != (w.state == over), "ended and over are not the same"},
		{before.tree && !w.tree && path[len(path)-1] != treeGone, "a tree is gone that nobody has ended"},
		{!before.tree && w.tree && before.state != asleep, "a second tree beside the first"},
	} {
		if c.broken {
			t.Errorf("%s after %v: %+v", c.what, path, w)
		}
	}
}

// Whatever has happened, an end of the session ends it.
func TestEveryDozeEnds(t *testing.T) {
	for d := range dozes {
		state := d
		state.step(mustEnd)
		if state != over {
			t.Errorf("%v goes to %v", d, state)
		}
	}
}
