package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"mcp-tether/internal/testkit"
)

var errNotAllowed = errors.New("a test was skipped that must not be")

// kinds are the kinds of users and machines for which the list speaks.
var kinds = []string{"root", "user", "namespaces", "vm", "no-v2", "no-controllers", "no-diag", "old"}

// allowance lets tests be skipped.
type allowance struct {
	kind  string
	tests *regexp.Regexp // of package.Test/subtest
	why   string         // how the reason begins
}

// parseSkips reads the list: kinds, a pattern of tests and the beginning of the reason a line.
func parseSkips(text string) ([]allowance, error) {
	var all []allowance
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		of, rest, _ := strings.Cut(line, " ")
		pattern, why, found := strings.Cut(strings.TrimSpace(rest), " ")
		unknown := func(kind string) bool { return !slices.Contains(kinds, kind) }
		if !found || slices.ContainsFunc(strings.Split(of, ","), unknown) {
			return nil, fmt.Errorf("skips.txt:%d: want KIND,... TESTS REASON, and KIND of %v", n, kinds)
		}
		tests, err := regexp.Compile("^(" + pattern + ")$")
		if err != nil {
			return nil, fmt.Errorf("skips.txt:%d: %w", n, err)
		}
		for kind := range strings.SplitSeq(of, ",") {
			all = append(all, allowance{kind, tests, strings.TrimSpace(why)})
		}
	}
	return all, nil
}

func (a allowance) allows(t test, why string) bool {
	return strings.HasPrefix(why, a.why) && (a.tests.MatchString(topLevel(t)) || a.tests.MatchString(t.String()))
}

// topLevel is the test without its subtests.
func topLevel(t test) string {
	name, _, _ := strings.Cut(t.name, "/")
	return test{t.pkg, name}.String()
}

// judge compares the skips with the list for the kinds that the run is of. What a short run leaves out is no skip.
func (r *report) judge(out io.Writer, list []allowance, of ...string) bool {
	ok := true
	for _, kind := range of {
		if !slices.Contains(kinds, kind) {
			fmt.Fprintf(out, "no such kind of user or machine: %s, want one of %v\n", kind, kinds)
			ok = false
		}
	}
	for t, why := range r.skipped {
		if why == testkit.LeftOut {
			continue
		}
		if !slices.ContainsFunc(list, func(a allowance) bool { return slices.Contains(of, a.kind) && a.allows(t, why) }) {
			fmt.Fprintf(out, "not on the list of skips for %s: %s: %s\n", strings.Join(of, ", "), t, why)
			ok = false
		}
	}
	return ok
}
