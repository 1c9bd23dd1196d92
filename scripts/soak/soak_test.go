//go:build linux

package main

import (
	"reflect"
	"testing"
	"time"
)

// A life can be had again from its seed and number, and two numbers are two lives.
func TestPlanIsRepeated(t *testing.T) {
	for n := range 50 {
		if a, b := makePlan(7, n, true), makePlan(7, n, true); !reflect.DeepEqual(a, b) {
			t.Errorf("%v\n%v", a, b)
		}
	}
	if reflect.DeepEqual(makePlan(7, 1, true).steps, makePlan(7, 2, true).steps) || reflect.DeepEqual(makePlan(7, 1, true).steps, makePlan(8, 1, true).steps) {
		t.Error("two lives are one")
	}
}

// A run goes on where the last one of the seed was interrupted, and begins anew with another seed or when its hours are over.
func TestTallyGoesOn(t *testing.T) {
	o := options{dir: t.TempDir(), hours: 1, seed: 7}
	first, err := openTally(o)
	if err != nil {
		t.Fatal(err)
	}
	first.take()
	first.count("x")
	first.before = time.Minute
	if err := first.save(); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		o    options
		next int
	}{
		"the same seed": {o, 2},
		"none given":    {options{dir: o.dir, hours: 1}, 2},
		"another seed":  {options{dir: o.dir, hours: 1, seed: 8}, 1},
		"it is over":    {options{dir: o.dir, hours: 0.001, seed: 7}, 1},
	} {
		got, err := openTally(c.o)
		if err != nil || got.Next != c.next || got.Counts["x"] != c.next-1 {
			t.Errorf("%s: next life %d, %v, %v", what, got.Next, got.Counts, err)
		}
	}
}

// What grows is told from what only moves, and what did not last is not judged.
func TestTrend(t *testing.T) {
	grow := func(step sample, n int) (all []sample) {
		for i := range n {
			all = append(all, sample{2000 + i*step.PSS, 10 + i*step.Files, 5 + i*step.Threads})
		}
		return all
	}
	for what, c := range map[string]struct {
		samples     []sample
		judged, bad int
	}{
		"level":       {grow(sample{}, 40), 1, 0},
		"memory":      {grow(sample{PSS: 400}, 40), 1, 1},
		"bounded":     {grow(sample{PSS: 100}, 40), 1, 0},
		"descriptors": {grow(sample{Files: 1}, 40), 1, 1},
		"threads":     {grow(sample{Threads: 1}, 40), 1, 1},
		"moves":       {append(grow(sample{PSS: 10}, 20), grow(sample{PSS: 10}, 20)...), 1, 0},
		"short":       {grow(sample{Files: 1}, fewest-1), 0, 0},
	} {
		tally, s := &tally{}, &steady{samples: map[string][]sample{"front 7": c.samples}}
		if got := s.trends(tally); len(got) != c.judged || len(tally.Bad) != c.bad {
			t.Errorf("%s: %+v, %v", what, got, tally.Bad)
		}
	}
}
