package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mcp-tether/internal/testkit"
)

// report is what the tests have told.
type report struct {
	said           map[test][]string
	parents        map[test]bool
	passed, failed map[test]bool
	skipped        map[test]string   // why
	unsteady       []test            // failed, and then passed by themselves
	again          []test            // failed, and then again
	seeds          map[test][]string // as for the environment
	seconds        map[test]float64  // what it took, without waiting for its turn
	idle           []string          // packages that failed, and in which roles were not used
	// broken says that a package did not run to its end.
	broken bool
	stderr bytes.Buffer // of the command that ran the tests
}

// test is one test or subtest.
type test struct{ pkg, name string }

// String names a test by its room, without the path above it.
func (t test) String() string {
	return strings.TrimPrefix(strings.TrimPrefix(t.pkg, "mcp-tether/"), "internal/") + "." + t.name
}

func newReport() *report {
	return &report{
		said: map[test][]string{}, parents: map[test]bool{}, passed: map[test]bool{}, failed: map[test]bool{},
		skipped: map[test]string{}, seeds: map[test][]string{}, seconds: map[test]float64{},
	}
}

// add takes an event. What a test said is shown if it has failed; what was said outside of tests, if the package has.
func (r *report) add(e event, out io.Writer) {
	t := test{e.Package, e.Test}
	r.seconds[t] += e.Elapsed
	switch {
	case e.Action == "output":
		r.said[t] = append(r.said[t], e.Output)
		if seed := seedTold.FindString(e.Output); seed != "" && !slices.Contains(r.seeds[t], seed) {
			r.seeds[t] = append(r.seeds[t], seed)
		}
	case e.Test == "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail"):
		r.endPackage(t, e, out)
	case e.Action == "pass":
		r.passed[t] = true
		// The race of a goroutine that outlives its test is reported while another test runs. That test may pass.
		if slices.Contains(r.said[t], raceFound) {
			show(out, r.said[t])
		}
		delete(r.said, t)
	case e.Action == "fail":
		r.failed[t] = true
		show(out, r.said[t])
		delete(r.said, t)
	case e.Action == "skip":
		r.skipped[t] = reason(r.said[t])
		delete(r.said, t)
	case e.Action == "run":
		for name := e.Test; strings.Contains(name, "/"); {
			name = name[:strings.LastIndexByte(name, '/')]
			r.parents[test{e.Package, name}] = true
		}
	}
}

// raceFound is the first line of a report of the race detector.
const raceFound = "WARNING: DATA RACE\n"

// onlyFailures is what a test binary says that has run to its end; after a panic it does not.
const onlyFailures = "FAIL\n"

func (r *report) endPackage(t test, e event, out io.Writer) {
	said := r.said[t]
	delete(r.said, t)
	if e.Action == "fail" {
		r.broken = r.broken || !slices.Contains(said, onlyFailures)
		if slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, testkit.IdleRoles) }) {
			r.idle = append(r.idle, t.pkg)
		}
		// A test that was running when the process ended has no end of its own.
		for other, lines := range r.said {
			if other.pkg == t.pkg && other.name != "" {
				show(out, lines)
			}
		}
		show(out, said)
		return
	}
	if len(said) > 0 && e.Action == "pass" {
		fmt.Fprint(out, said[len(said)-1])
	}
}

// show leaves out how the test took turns with others.
func show(out io.Writer, said []string) {
	for _, line := range said {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(out, line)
		}
	}
}

// reason is what a skipped test said last.
func reason(said []string) string {
	last := "no reason given"
	for _, line := range said {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- SKIP") {
			continue
		}
		if _, text, found := strings.Cut(trimmed, ".go:"); found {
			_, text, _ = strings.Cut(text, ": ")
			trimmed = text
		}
		last = trimmed
	}
	return last
}

// cutOff are the tests that have begun and not ended, as their machine was at its limit.
func (r *report) cutOff() []test {
	var cut []test
	for t := range r.said {
		if t.name != "" {
			cut = append(cut, t)
		}
	}
	return cut
}

// count counts the tests that have no subtests.
func (r *report) count(all map[test]bool) int {
	n := 0
	for t := range all {
		if !r.parents[t] {
			n++
		}
	}
	return n
}

// skips are the skipped tests by reason, in order. What a short run leaves out is not among them, but counted.
func (r *report) skips() (byReason map[string][]test, leftOut int) {
	byReason = map[string][]test{}
	for t, why := range r.skipped {
		if why == testkit.LeftOut {
			leftOut++
			continue
		}
		byReason[why] = append(byReason[why], t)
	}
	return byReason, leftOut
}

// shown is how many tests are named for one reason.
const shown = 6

// summarize counts, and names what was skipped.
func (r *report) summarize(out io.Writer) {
	for _, t := range r.unsteady {
		fmt.Fprintf(out, "unsteady: %s failed, and passed when it was run again by itself, %s\n", t, r.howOften(t))
	}
	for _, t := range r.again {
		fmt.Fprintf(out, "failed again: %s%s\n", t, strings.Join(append([]string{""}, r.seedsOf(t)...), " "))
	}
	byReason, leftOut := r.skips()
	if cut := r.cutOff(); len(cut) > 0 {
		fmt.Fprintf(out, "did not end: %s\n", named(cut))
	}
	fmt.Fprintf(out, "%d tests passed, %d failed, %d were skipped\n", r.count(r.passed), r.count(r.failed), len(r.skipped)-leftOut)
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(out, "  %d skipped, %s: %s\n", len(byReason[why]), why, named(byReason[why]))
	}
}

// tellSlowest names the top-level tests that took longest, with the sum of what their subtests took. Tests run side by
// side, so all the sums are more than the run took.
func (r *report) tellSlowest(out io.Writer, n int) {
	sums := map[string]float64{}
	for t, seconds := range r.seconds {
		if t.name != "" && !r.parents[t] {
			sums[topLevel(t)] += seconds
		}
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Compare(sums[b], sums[a]) })
	for _, name := range names[:min(n, len(names))] {
		fmt.Fprintf(out, "%8.1f s  %s\n", sums[name], name)
	}
}

// tellLeftOut is the last line of a short run: what would bring in the rest.
func (r *report) tellLeftOut(out io.Writer) {
	if _, leftOut := r.skips(); leftOut > 0 {
		fmt.Fprintf(out, "left out: %d tests, the rest of long lists and all that need a container engine, systemd, FUSE, Chromium, or node with npm packages; "+
			"make test-all runs them (docs/design.md, \"Tests\")\n", leftOut)
	}
}

// howOften tells of the runs after which a failure was taken back.
func (r *report) howOften(t test) string {
	often := fmt.Sprintf("%d times", fresh)
	if seeds := r.seedsOf(t); len(seeds) > 0 {
		often = strings.Join(seeds, ", ") + " and " + often + " with other seeds"
	}
	return often
}

// named names the top-level tests, some of them if there are many.
func named(all []test) string {
	var names []string
	for _, t := range all {
		names = append(names, topLevel(t))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return strings.Join(names, ", ")
}
