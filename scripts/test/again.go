package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// mostAgain is how many failures may be due to the machine. More of them are no accident.
const mostAgain = 4

// runAgain runs each test that failed once more, by itself, and reports whether all passed. What passed is unsteady
// from then on.
func (r *report) runAgain(args []string, out io.Writer) bool {
	failed := r.leaves()
	if r.broken || len(failed) == 0 || len(failed) > mostAgain {
		return false
	}
	for _, t := range failed {
		fmt.Fprintf(out, "again: %s\n", t)
		second, err := run(append(slices.Clone(args), "-run", exactly(t.name), t.pkg), out)
		if err != nil || !second.passed[t] {
			return false
		}
		r.steady(t)
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
