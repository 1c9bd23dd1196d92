//go:build linux

package main

import "testing"

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
		if got := s.trends(tally); len(got) != c.judged || len(tally.wrong) != c.bad {
			t.Errorf("%s: %+v, %v", what, got, tally.wrong)
		}
	}
}
