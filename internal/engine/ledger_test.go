package engine

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

func second(n int) time.Time { return time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC) }

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
	for name, c := range map[string]struct {
		notes   []Note
		objects []Object
		pending []Object
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
		"a pod and a network of one id": {
			notes: []Note{
				{Op: OpCreated, Kind: Pod, ID: "x", Request: "1"}, {Op: OpCreated, Kind: Network, ID: "x", Request: "2"},
			},
			objects: []Object{{Kind: Pod, ID: "x", Request: "1"}, {Kind: Network, ID: "x", Request: "2"}},
		},
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
		again := ledger(l.Notes()...)
		if got, want := fmt.Sprint(again), fmt.Sprint(l); got != want {
			t.Errorf("%s: its notes add up to %+v", name, again)
		}
		if want := len(c.objects)+len(c.pending) == 0; l.Empty() != want {
			t.Errorf("%s: Empty is %v", name, l.Empty())
		}
	}
}

// A note that is added later changes neither a clone nor an earlier list.
func TestLedgerCloneStandsAlone(t *testing.T) {
	var l Ledger
	for _, r := range []string{"1", "2", "3"} {
		l.Add(Note{Op: OpCreate, Request: r})
	}
	clone, pending := l.Clone(), l.Pending()
	for _, r := range []string{"1", "2", "3"} {
		l.Add(Note{Op: OpRefused, Request: r})
	}
	l.Add(Note{Op: OpCreate, Request: "4"})
	if !reflect.DeepEqual(clone.Pending(), pending) || len(pending) != 3 || pending[0].Request != "1" {
		t.Errorf("clone %+v, listed %+v", clone, pending)
	}
}
