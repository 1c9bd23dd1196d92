//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// tally is what was counted, over all runs of one seed. It is kept in a file, so that another run can go on.
type tally struct {
	mu sync.Mutex

	Seed    uint64         `json:"seed"`
	Next    int            `json:"next"` // number of the next life
	Elapsed time.Duration  `json:"elapsed"`
	Runs    int            `json:"runs"`
	Counts  map[string]int `json:"counts"`
	// Clean is how long it took, in ms, from the end of a gateway until nothing of the life was left.
	Clean []int `json:"clean"`
	// Bad names what must not be, with the number of the life, in the order in which it was seen.
	Bad []string `json:"bad"`
	// Steady is what the longest run measured of the sessions that lasted.
	Steady []trend `json:"steady"`

	file string
	// before is Elapsed when this run began.
	before time.Duration
	began  time.Time
}

// openTally goes on with what a file has, or begins anew: with another seed, or where there is none.
func openTally(o options) (*tally, error) {
	t := &tally{file: filepath.Join(o.dir, "tally.json")}
	raw, err := os.ReadFile(t.file)
	if err == nil {
		err = json.Unmarshal(raw, t)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read what was counted: %w", err)
	}
	if o.seed != 0 && o.seed != t.Seed || t.Seed == 0 || t.Elapsed >= o.duration() {
		t = &tally{file: t.file, Seed: o.seed}
	}
	if t.Seed == 0 {
		t.Seed = uint64(time.Now().UnixNano())
	}
	if t.Counts == nil {
		t.Counts = map[string]int{}
	}
	t.before, t.began = t.Elapsed, time.Now()
	t.Runs++
	t.Next = max(t.Next, 1)
	return t, nil
}

// save writes the file as a whole or not at all.
func (t *tally) save() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Elapsed = t.before + time.Since(t.began)
	raw, err := json.MarshalIndent(t, "", "\t")
	if err == nil {
		err = errors.Join(os.WriteFile(t.file+".new", raw, 0o644), os.Rename(t.file+".new", t.file))
	}
	if err != nil {
		return fmt.Errorf("write what was counted: %w", err)
	}
	return nil
}

func (t *tally) count(what string) { t.add(what, 1) }

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > 0 {
		t.Counts[what] += n
	}
}

// bad notes what must not be.
func (t *tally) bad(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := time.Now().Format(time.TimeOnly) + " " + fmt.Sprintf(format, args...)
	fmt.Println("BAD:", what)
	t.Bad = append(t.Bad, what)
}

func (t *tally) cleanAfter(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Clean = append(t.Clean, int(d.Milliseconds()))
}

// take gives the number of the next life.
func (t *tally) take() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Next++
	return t.Next - 1
}

// report prints the tables.
func (t *tally) report(out io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(out, "%.2f hours in %d runs, seed %d\n\n| what | number |\n|---|---:|\n", (t.before + time.Since(t.began)).Hours(), t.Runs, t.Seed)
	for _, what := range slices.Sorted(maps.Keys(t.Counts)) {
		fmt.Fprintf(out, "| %s | %d |\n", what, t.Counts[what])
	}
	fmt.Fprintf(out, "| **leaks, innocents hit, wrong or missing answers** | **%d** |\n", len(t.Bad))
	if n := len(t.Clean); n > 0 {
		all := slices.Sorted(slices.Values(t.Clean))
		fmt.Fprintf(out, "\nFrom a gateway's end until nothing was left: median %d ms, 99 of 100 %d ms, longest %d ms.\n", all[n/2], all[n*99/100], all[n-1])
	}
	if len(t.Steady) > 0 {
		fmt.Fprintf(out, "\n| lasted | minutes | PSS kB, first and last quarter | descriptors | threads | calls |\n|---|---:|---:|---:|---:|---:|\n")
	}
	for _, s := range t.Steady {
		fmt.Fprintf(out, "| %s | %d | %d, %d | %d, %d | %d, %d | %d |\n", s.Name, s.Minutes, s.First.PSS, s.Last.PSS, s.First.Files, s.Last.Files, s.First.Threads, s.Last.Threads, s.Calls)
	}
	for _, b := range t.Bad {
		fmt.Fprintln(out, "\nBAD:", b)
	}
}
