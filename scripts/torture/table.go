//go:build amd64

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// table counts results by mode, class and verdict.
type table struct {
	counts                map[string]int
	total, failed, missed int
}

// verdictKnown is what the table calls a failure that known.txt names.
const verdictKnown = "known"

func (t *table) add(k Case, r Result, known bool) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.total++
	switch {
	case known:
		r.Verdict = verdictKnown
	case r.failed():
		t.failed++
	}
	if k.Shot != nil && r.Fired == "" {
		t.missed++
	}
	t.counts[fmt.Sprintf("%-10s %-32s %s", k.Mode, k.Class(), r.Verdict)]++
}

// String has a line for each mode, class and verdict. missed cases are those whose session made fewer such calls than when they were
// counted.
func (t *table) String() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(&b, "%6d  %s\n", t.counts[key], key)
	}
	fmt.Fprintf(&b, "%6d  missed\n", t.missed)
	return b.String()
}
