//go:build amd64

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// table counts results by mode and class.
type table struct {
	rows map[[2]string]*tally
}

type tally struct {
	cases, missed int
	by            map[string]int // verdict, or known
	slowest       int64          // milliseconds
}

// verdictKnown is what the table calls a failure that known.txt names.
const verdictKnown = "known"

// verdicts are the columns. Those behind known break the promise, or could not be run.
var verdicts = []string{
	verdictOK, verdictReaped, verdictNamed, verdictLate, verdictKnown, verdictLeak, verdictHang, verdictLitter, verdictHarm, verdictBroken,
}

func (t *table) add(k Case, r Result, known bool) {
	if t.rows == nil {
		t.rows = map[[2]string]*tally{}
	}
	key := [2]string{k.Mode, k.Class()}
	if t.rows[key] == nil {
		t.rows[key] = &tally{by: map[string]int{}}
	}
	row := t.rows[key]
	row.cases++
	if k.Shot != nil && r.Fired == "" {
		row.missed++
	}
	row.slowest = max(row.slowest, r.Milliseconds)
	if known {
		r.Verdict = verdictKnown
	}
	row.by[r.Verdict]++
}

func (t *table) total() (n int) {
	for _, r := range t.rows {
		n += r.cases
	}
	return n
}

// failed counts the cases that break the promise, and those that could not be run.
func (t *table) failed() (n int) {
	for _, r := range t.rows {
		for _, v := range verdicts[slices.Index(verdicts, verdictKnown)+1:] {
			n += r.by[v]
		}
	}
	return n
}

// print writes the table. missed cases are those whose session made fewer such calls than when they were counted.
// reaped ones left what reap --kill cleared, and named ones left processes that the closing event names. late ones were
// ended by the watchdog, and known ones are those of known.txt. The slowest is in milliseconds.
func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "mode\tfault\tcases\tmissed\t%s\tslowest\t\n", strings.Join(verdicts, "\t"))
	keys := slices.SortedFunc(maps.Keys(t.rows), func(a, b [2]string) int {
		if a[0] != b[0] {
			return slices.Index(modeNames(), a[0]) - slices.Index(modeNames(), b[0])
		}
		return strings.Compare(a[1], b[1])
	})
	for _, k := range keys {
		r := t.rows[k]
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t", k[0], k[1], r.cases, r.missed)
		for _, v := range verdicts {
			fmt.Fprintf(tw, "%d\t", r.by[v])
		}
		fmt.Fprintf(tw, "%d\t\n", r.slowest)
	}
	_ = tw.Flush()
}
