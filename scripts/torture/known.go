//go:build amd64

package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// known lists the cases that fail as they are known to: VERDICT CASES REASON in each line, where CASES is a regular
// expression that matches whole ids.
type known []knownCase

type knownCase struct {
	verdict, reason string
	cases           *regexp.Regexp
}

//go:embed known.txt
var knownText string

// saying gives the lines of a list that say something.
func saying(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" || line[0] == '#' })
}

func readKnown() (known, error) {
	var out known
	for _, line := range saying(knownText) {
		word := strings.Fields(line)
		if len(word) < 3 {
			return nil, fmt.Errorf("known case %q: want VERDICT CASES REASON", line)
		}
		cases, err := regexp.Compile("^(?:" + word[1] + ")$")
		if err != nil {
			return nil, fmt.Errorf("known case %q: %w", line, err)
		}
		if !(Result{Verdict: word[0]}).failed() {
			return nil, fmt.Errorf("known case %q: %s is no failure", line, word[0])
		}
		out = append(out, knownCase{word[0], strings.Join(word[2:], " "), cases})
	}
	return out, nil
}

// match gives the reason why a result is no news.
func (k known) match(r Result) (reason string, ok bool) {
	for _, c := range k {
		if c.verdict == r.Verdict && c.cases.MatchString(r.Case) {
			return c.reason, true
		}
	}
	return "", false
}
