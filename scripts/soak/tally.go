//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// tally is what was counted.
type tally struct {
	mu   sync.Mutex
	seed uint64
	next int // number of the next life
	// counts are what happened, clean how long it took, in ms, from the end of a gateway until nothing of the life was left.
	counts map[string]int
	clean  []int
	// wrong names what must not be, with the number of the life, in the order in which it was seen.
	wrong []string
	// steady is what was measured of the sessions that lasted.
	steady []trend
	began  time.Time
}

func newTally(seed uint64) *tally {
	return &tally{seed: cmp.Or(seed, uint64(time.Now().UnixNano())), next: 1, counts: map[string]int{}, began: time.Now()}
}

func (t *tally) count(what string) { t.add(what, 1) }

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > 0 {
		t.counts[what] += n
	}
}

// bad notes what must not be.
func (t *tally) bad(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := time.Now().Format(time.TimeOnly) + " " + fmt.Sprintf(format, args...)
	fmt.Println("BAD:", what)
	t.wrong = append(t.wrong, what)
}

func (t *tally) cleanAfter(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clean = append(t.clean, int(d.Milliseconds()))
}

// take gives the number of the next life.
func (t *tally) take() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	return t.next - 1
}

// report prints the tables.
func (t *tally) report(out io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(out, "%.2f hours, seed %d\n\n| what | number |\n|---|---:|\n", time.Since(t.began).Hours(), t.seed)
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(out, "| %s | %d |\n", what, t.counts[what])
	}
	fmt.Fprintf(out, "| **leaks, innocents hit, wrong or missing answers** | **%d** |\n", len(t.wrong))
	if n := len(t.clean); n > 0 {
		all := slices.Sorted(slices.Values(t.clean))
		fmt.Fprintf(out, "\nFrom a gateway's end until nothing was left: median %d ms, 99 of 100 %d ms, longest %d ms.\n", all[n/2], all[n*99/100], all[n-1])
	}
	if len(t.steady) > 0 {
		fmt.Fprintf(out, "\n| lasted | minutes | PSS kB, first and last quarter | descriptors | threads | calls |\n|---|---:|---:|---:|---:|---:|\n")
	}
	for _, s := range t.steady {
		fmt.Fprintf(out, "| %s | %d | %d, %d | %d, %d | %d, %d | %d |\n", s.Name, s.Minutes, s.First.PSS, s.Last.PSS, s.First.Files, s.Last.Files, s.First.Threads, s.Last.Threads, s.Calls)
	}
	for _, b := range t.wrong {
		fmt.Fprintln(out, "\nBAD:", b)
	}
}
