package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mcp-tether/internal/testkit"
)

// mostAgain is how many failures may be due to the machine. More of them are no accident.
const mostAgain = 4

// fresh is how often a test that failed must pass by itself, with random choices of its own each time.
const fresh = 3

// seedWord is the environment variable that repeats the random choices of a test, and the word by which the test tells of it.
const seedWord = testkit.SeedVar + "="

var seedTold = regexp.MustCompile(seedWord + `\d+`)

// runAgain runs each test that failed again by itself, and reports whether all passed. A failure is taken back only if the
// test passes with the very seeds that it told, and then a few times with others. What fails again stays failed. What
// passed is unsteady from then on.
func (r *report) runAgain(args []string, out io.Writer) bool {
	failed := r.leaves()
	if r.broken || len(failed) == 0 || len(failed) > mostAgain {
		return false
	}
	held := true
	for _, t := range failed {
		if r.holds(t, args, out) {
			r.steady(t)
			continue
		}
		r.again = append(r.again, t)
		held = false
	}
	return held && allRolesUsed(r.idle, args, out)
}

// holds runs one test with each seed that it told, and then with fresh ones.
func (r *report) holds(t test, args []string, out io.Writer) bool {
	args = append(slices.Clone(args), "-test.run="+exactly(t.name))
	for _, seed := range r.seedsOf(t) {
		fmt.Fprintf(out, "again: %s with %s\n", t, seed)
		if !passes(t, append(slices.Clone(args), t.pkg), out, seed) {
			return false
		}
	}
	fmt.Fprintf(out, "again: %s, %d times\n", t, fresh)
	return passes(t, append(args, "-test.count="+strconv.Itoa(fresh), t.pkg), out)
}

func passes(t test, args []string, out io.Writer, env ...string) bool {
	second, err := run(args, out, env...)
	return err == nil && second.passed[t]
}

// seedsOf are the seeds that a test told, or the one that it is part of.
func (r *report) seedsOf(t test) []string {
	for len(r.seeds[t]) == 0 && strings.Contains(t.name, "/") {
		t.name = t.name[:strings.LastIndexByte(t.name, '/')]
	}
	return r.seeds[t]
}

// allRolesUsed runs whole packages once more: those in which roles were not used. A test that failed may have been
// about to use a role, and by itself it cannot show that.
func allRolesUsed(packages, args []string, out io.Writer) bool {
	for _, pkg := range packages {
		fmt.Fprintf(out, "again: all of %s, for the roles that were not used\n", pkg)
		if _, err := run(append(slices.Clone(args), pkg), out); err != nil {
			return false
		}
	}
	return true
}

// steady takes a failure of a test back, and those of the tests that it is part of if no other part of them failed.
func (r *report) steady(t test) {
	r.unsteady = append(r.unsteady, t)
	r.takeBack(t)
	for name := t.name; strings.Contains(name, "/"); {
		name = name[:strings.LastIndexByte(name, '/')]
		if parent := (test{t.pkg, name}); !r.partFailed(parent) {
			r.takeBack(parent)
		}
	}
}

func (r *report) takeBack(t test) {
	delete(r.failed, t)
	r.passed[t] = true
}

// leaves are the tests that failed, without those of which a part failed.
func (r *report) leaves() []test {
	var out []test
	for t := range r.failed {
		if !r.partFailed(t) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b test) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// partFailed reports whether a subtest of a test failed.
func (r *report) partFailed(t test) bool {
	for other := range r.failed {
		if other.pkg == t.pkg && strings.HasPrefix(other.name, t.name+"/") {
			return true
		}
	}
	return false
}

// exactly is the pattern for -run that matches one test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
