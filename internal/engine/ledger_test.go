package engine

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

func second(n int) time.Time { return time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC) }

const startedText = "2026-01-02T03:04:30.5Z"

// Each case is a journal, and what it adds up to.
func TestLedger(t *testing.T) {
	ask := func(request string, at int) Note {
		return Note{Op: OpCreate, Kind: Container, Request: request, Name: "n-" + request, At: second(at)}
	}
	made := func(request, id string) Note {
		return Note{Op: OpCreated, Kind: Container, Request: request, ID: id, At: second(50)}
	}
	object := func(request, id string, at int) Object {
		return Object{Kind: Container, ID: id, Request: request, Name: "n-" + request, At: second(at)}
	}
	thirty := second(30).Add(500 * time.Millisecond)
	start := Note{Op: OpStart, ID: "f", At: second(3)}
	for name, c := range map[string]struct {
		notes   []Note
		objects []Object
		pending []Object
		started []Started
	}{
		"nothing":     {},
		"asked":       {notes: []Note{ask("r", 1)}, pending: []Object{object("r", "", 1)}},
		"created":     {notes: []Note{ask("r", 1), made("r", "a")}, objects: []Object{object("r", "a", 1)}},
		"refused":     {notes: []Note{ask("r", 1), {Op: OpRefused, Request: "r"}}},
		"removed":     {notes: []Note{ask("r", 1), made("r", "a"), {Op: OpRemoved, ID: "a"}}},
		"noted twice": {notes: []Note{ask("r", 1), made("r", "a"), made("r", "a")}, objects: []Object{object("r", "a", 1)}},
		"in parallel": {
			notes:   []Note{ask("r", 1), ask("s", 2), ask("u", 3), made("s", "b"), made("r", "a")},
			objects: []Object{object("s", "b", 2), object("r", "a", 1)}, pending: []Object{object("u", "", 3)},
		},
		"created without a request": {
			notes:   []Note{{Op: OpCreated, Kind: Pod, ID: "p", Name: "web", At: second(9)}, ask("", 1)},
			objects: []Object{{Kind: Pod, ID: "p", Name: "web", At: second(9)}}, pending: []Object{object("", "", 1)},
		},
		"created without an id": {notes: []Note{ask("r", 1), made("r", "")}},
		"a volume and a network of one name": {
			notes: []Note{
				{Op: OpCreated, Kind: Volume, ID: "x", Request: "1"}, {Op: OpCreated, Kind: Network, ID: "x", Request: "2"},
			},
			objects: []Object{{Kind: Volume, ID: "x", Request: "1"}, {Kind: Network, ID: "x", Request: "2"}},
		},
		"start asked": {notes: []Note{start}, started: []Started{{ID: "f", At: second(3)}}},
		"started": {
			notes:   []Note{start, {Op: OpStarted, ID: "f", Started: startedText}},
			started: []Started{{ID: "f", At: thirty, Known: true}},
		},
		"started at a time that cannot be read": {
			notes:   []Note{start, {Op: OpStarted, ID: "f", Started: "yesterday"}},
			started: []Started{{ID: "f", At: second(3)}},
		},
		"started without being asked": {
			notes:   []Note{{Op: OpStarted, ID: "f", Started: startedText}},
			started: []Started{{ID: "f", At: thirty, Known: true}},
		},
		"started again": {
			notes:   []Note{start, {Op: OpStarted, ID: "f", Started: "2026-01-02T03:04:05Z"}, start, {Op: OpStarted, ID: "f", Started: startedText}},
			started: []Started{{ID: "f", At: thirty, Known: true}},
		},
		"started again, outcome unknown": {
			notes:   []Note{{Op: OpStarted, ID: "f", Started: startedText, Restarts: 2}, {Op: OpStart, ID: "f", At: second(40)}},
			started: []Started{{ID: "f", At: thirty, Known: true, Again: second(40), Restarts: 2}},
		},
		"paused again, then started": {
			notes:   []Note{{Op: OpStarted, ID: "f", Started: startedText, Paused: true}, start},
			started: []Started{{ID: "f", At: thirty, Known: true, Again: second(3), Paused: true}},
		},
		"asked for more than once": {
			notes:   []Note{start, {Op: OpStart, ID: "f", At: second(40)}, {Op: OpStart, ID: "f", At: second(50)}},
			started: []Started{{ID: "f", At: second(3), Last: second(50)}},
		},
		"started again more than once": {
			notes:   []Note{{Op: OpStarted, ID: "f", Started: startedText}, {Op: OpStart, ID: "f", At: second(40)}, {Op: OpStart, ID: "f", At: second(50)}},
			started: []Started{{ID: "f", At: thirty, Known: true, Again: second(40), Last: second(50)}},
		},
		"kept":               {notes: []Note{start, {Op: OpKept, ID: "f"}}},
		"started, removed":   {notes: []Note{start, {Op: OpStarted, ID: "f", Started: startedText}, {Op: OpRemoved, ID: "f"}}},
		"of a later version": {notes: []Note{{Op: "renamed", ID: "f", Request: "r"}}},
	} {
		var l Ledger
		for _, n := range c.notes {
			l.Add(n)
		}
		if got := l.Objects(); len(got)+len(c.objects) > 0 && !reflect.DeepEqual(got, c.objects) {
			t.Errorf("%s: objects %+v, want %+v", name, got, c.objects)
		}
		if got := l.Pending(); len(got)+len(c.pending) > 0 && !reflect.DeepEqual(got, c.pending) {
			t.Errorf("%s: pending %+v, want %+v", name, got, c.pending)
		}
		if got := l.Started(); len(got)+len(c.started) > 0 && !reflect.DeepEqual(got, c.started) {
			t.Errorf("%s: started %+v, want %+v", name, got, c.started)
		}
		again := ledger(l.Notes()...)
		if got, want := fmt.Sprint(again), fmt.Sprint(l); got != want {
			t.Errorf("%s: its notes add up to %+v", name, again)
		}
		if want := len(c.objects)+len(c.pending)+len(c.started) == 0; l.Empty() != want {
			t.Errorf("%s: Empty is %v", name, l.Empty())
		}
	}
}

// A note that is added later changes neither a clone nor an earlier list.
func TestLedgerCloneStandsAlone(t *testing.T) {
	var l Ledger
	for _, r := range []string{"1", "2", "3"} {
		l.Add(Note{Op: OpCreate, Request: r})
		l.Add(Note{Op: OpStart, ID: r})
	}
	clone, pending, started := l.Clone(), l.Pending(), l.Started()
	for _, r := range []string{"1", "2", "3"} {
		l.Add(Note{Op: OpRefused, Request: r})
		l.Add(Note{Op: OpKept, ID: r})
	}
	l.Add(Note{Op: OpCreate, Request: "4"})
	if !reflect.DeepEqual(clone.Pending(), pending) || !reflect.DeepEqual(clone.Started(), started) || len(pending) != 3 || pending[0].Request != "1" || len(started) != 3 || started[2].ID != "3" {
		t.Errorf("clone %+v, listed %+v and %+v", clone, pending, started)
	}
}

// What is known of a container's connection is forgotten when it is undone, or has failed.
func TestLedgerOfUndoneConnections(t *testing.T) {
	note := func(op Op, id string) Note { return Note{Op: op, Kind: Network, ID: "n", Container: id} }
	l := ledger(note(OpParted, "a"), note(OpConnect, "a"), note(OpConnect, "b"), note(OpParted, "a"))
	clone := l.Clone()
	l.Add(note(OpParted, "b"))
	want := map[string][]string{"n": {"b"}}
	if !reflect.DeepEqual(clone.connected, want) || len(l.connected["n"]) > 0 || len(l.Notes()) > 0 {
		t.Errorf("%v, then %v: %v", clone.connected, l.connected, l.Notes())
	}
}

// Containers that were connected to a network are known until the network is removed, in every copy.
func TestConnectedContainers(t *testing.T) {
	connect := func(network, id string) Note {
		return Note{Op: OpConnect, Kind: Network, ID: network, Container: id}
	}
	l := ledger(connect("n", "a"), connect("n", "a"), connect("n", "b"), connect("m", "a"), Note{Op: OpRemoved, ID: "m"})
	clone := l.Clone()
	again := ledger(l.Notes()...)
	l.Add(connect("n", "c"))
	want := map[string][]string{"n": {"a", "b"}}
	if !reflect.DeepEqual(clone.connected, want) || !reflect.DeepEqual(again.connected, want) || len(l.connected["n"]) != 3 {
		t.Errorf("%v, %v, %v", clone.connected, again.connected, l.connected)
	}
}
