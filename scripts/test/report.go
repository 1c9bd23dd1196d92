package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mcp-tether/e2e/testkit"
)

// event is a line of go test -json, see go doc test2json. A build that fails has an ImportPath in place of a Package.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

// test is one test or subtest, a package ("" for the name), or a build.
type test struct{ pkg, name string }

// String names a test by its room, without the path above it.
func (t test) String() string {
	room := strings.TrimPrefix(strings.TrimPrefix(t.pkg, "mcp-tether/"), "internal/")
	if t.name == "" {
		return room
	}
	return room + " " + t.name
}

// report is what the tests have told.
type report struct {
	said    map[test][]string
	failed  []test // in the order in which they ended
	passed  map[test]bool
	skipped map[test]string // why
	parents map[test]bool
	seconds map[test]float64 // without waiting for its turn
}

func newReport() *report {
	return &report{
		said: map[test][]string{}, passed: map[test]bool{}, skipped: map[test]string{}, parents: map[test]bool{}, seconds: map[test]float64{},
	}
}

// add takes an event. The end of a package is shown at once.
func (r *report) add(e event, out io.Writer) {
	t := test{cmp.Or(e.Package, e.ImportPath), e.Test}
	r.seconds[t] += e.Elapsed
	switch e.Action {
	case "output", "build-output":
		if !strings.HasPrefix(e.Output, "=== ") {
			r.said[t] = append(r.said[t], e.Output)
		}
	case "run":
		if at := strings.LastIndexByte(e.Test, '/'); at > 0 {
			r.parents[test{e.Package, e.Test[:at]}] = true
		}
	case "build-fail":
		r.failed = append(r.failed, t)
	case "pass", "skip", "fail":
		r.end(t, e, out)
	}
}

// end takes the end of a test or a package.
func (r *report) end(t test, e event, out io.Writer) {
	switch {
	case t.name == "" && e.Action == "fail":
		fmt.Fprintf(out, "FAIL  %-28s %6.1f s\n", t, e.Elapsed)
		if e.FailedBuild == "" {
			r.cutOff(t.pkg)
			r.failed = append(r.failed, t)
		}
	case t.name == "" && e.Action == "pass":
		fmt.Fprintf(out, "ok    %-28s %6.1f s\n", t, e.Elapsed)
	case t.name == "": // a package without tests
	case e.Action == "fail":
		r.failed = append(r.failed, t)
		return
	case e.Action == "skip":
		r.skipped[t] = reason(r.said[t])
	case slices.Contains(r.said[t], raceFound):
		// The race of a goroutine that outlives its test is reported while another test runs, which may pass.
		r.failed = append(r.failed, t)
		return
	default:
		r.passed[t] = true
	}
	if e.Action != "fail" {
		delete(r.said, t)
	}
}

// raceFound is the first line of a report of the race detector.
const raceFound = "WARNING: DATA RACE\n"

// cutOff takes the tests of a package that were running when it ended: they have no end of their own.
func (r *report) cutOff(pkg string) {
	for t := range r.said {
		if t.pkg == pkg && t.name != "" && !slices.Contains(r.failed, t) && !r.parents[t] {
			r.failed = append(r.failed, t)
		}
	}
}

// reason is why a test was skipped: what testkit makes it say, or else what it said last.
func reason(said []string) string {
	last := "no reason given"
	for _, line := range said {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--- SKIP") {
			continue
		}
		if _, text, found := strings.Cut(line, ".go:"); found {
			_, line, _ = strings.Cut(text, ": ")
		}
		if line == testkit.LeftOut || line == testkit.LeftToProof || strings.HasPrefix(line, testkit.Needs) {
			return line
		}
		last = line
	}
	return last
}

// tail is how many lines are shown of what a failed test said.
const tail = 40

// tell says what failed, how much passed, and what was left out.
func (r *report) tell(out io.Writer, slowest int) {
	failures := 0
	for _, t := range r.failed {
		said := r.said[t]
		// What is above a test that failed says nothing of its own, nor does a package that ran to its end.
		if r.parents[t] || t.name == "" && !slices.ContainsFunc(said, func(line string) bool { return !strings.HasPrefix(line, "FAIL") && line != "exit status 1\n" }) {
			continue
		}
		failures++
		fmt.Fprintf(out, "\nFAIL %s\n", t)
		if more := len(said) - tail; more > 0 {
			fmt.Fprintf(out, "    (%d lines before)\n", more)
			said = said[more:]
		}
		for _, line := range said {
			fmt.Fprint(out, line)
		}
	}
	if failures > 0 {
		fmt.Fprintln(out)
	}
	r.tellSlowest(out, slowest)
	passed := 0
	for t := range r.passed {
		if !r.parents[t] {
			passed++
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failures, len(r.skipped))
	r.tellSkipped(out)
}

// tellSkipped is one line: what would bring in the rest.
func (r *report) tellSkipped(out io.Writer) {
	reasons := map[string]int{}
	for _, why := range r.skipped {
		reasons[strings.TrimPrefix(why, testkit.Needs)]++
	}
	if len(reasons) == 0 {
		return
	}
	var words []string
	for _, why := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], cmp.Compare(a, b)) }) {
		words = append(words, fmt.Sprintf("%s (%d)", why, reasons[why]))
	}
	fmt.Fprintf(out, "left out here: %s\n", strings.Join(words, ", "))
}

// tellSlowest names the top-level tests that took longest, with the sum of what their subtests took. Tests run side by
// side, so all the sums are more than the run took.
func (r *report) tellSlowest(out io.Writer, n int) {
	sums := map[test]float64{}
	for t, seconds := range r.seconds {
		if t.name != "" && !r.parents[t] {
			top, _, _ := strings.Cut(t.name, "/")
			sums[test{t.pkg, top}] += seconds
		}
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b test) int { return cmp.Compare(sums[b], sums[a]) })
	for _, name := range names[:min(n, len(names))] {
		fmt.Fprintf(out, "%8.1f s  %s\n", sums[name], name)
	}
}
