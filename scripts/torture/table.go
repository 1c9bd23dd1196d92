//go:build amd64

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// table counts results by mode and class.
type table struct {
	rows map[[2]string]*tally
}

type tally struct {
	cases, missed                       int
	ok, reaped, named, late, known      int
	leaks, hangs, litter, harm, invalid int
	slowest                             int64 // milliseconds
}

func (t *table) add(k Case, r Result, known bool) {
	if t.rows == nil {
		t.rows = map[[2]string]*tally{}
	}
	key := [2]string{k.Mode, k.Class()}
	if t.rows[key] == nil {
		t.rows[key] = &tally{}
	}
	row := t.rows[key]
	row.cases++
	if k.Shot != nil && r.Fired == "" {
		row.missed++
	}
	row.slowest = max(row.slowest, r.Milliseconds)
	switch {
	case known:
		row.known++
	case r.Verdict == verdictOK:
		row.ok++
	case r.Verdict == verdictReaped:
		row.reaped++
	case r.Verdict == verdictNamed:
		row.named++
	case r.Verdict == verdictLate:
		row.late++
	case r.Verdict == verdictLeak:
		row.leaks++
	case r.Verdict == verdictHang:
		row.hangs++
	case r.Verdict == verdictLitter:
		row.litter++
	case r.Verdict == verdictHarm:
		row.harm++
	default:
		row.invalid++
	}
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
		n += r.leaks + r.hangs + r.litter + r.harm + r.invalid
	}
	return n
}

// print writes the table. missed cases are those whose session made fewer such calls than when they were counted.
// reaped ones left what reap --kill cleared, and named ones left processes that the closing event names. late ones were
// ended by the watchdog, and known ones are those of known.txt. The slowest is in milliseconds.
func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "mode\tfault\tcases\tmissed\tok\treaped\tnamed\tlate\tknown\tleaks\thangs\tlitter\tharm\tinvalid\tslowest\t")
	var keys [][2]string
	for k := range t.rows {
		keys = append(keys, k)
	}
	order := modeNames()
	slices.SortFunc(keys, func(a, b [2]string) int {
		if a[0] != b[0] {
			return slices.Index(order, a[0]) - slices.Index(order, b[0])
		}
		if a[1] < b[1] {
			return -1
		}
		return 1
	})
	for _, k := range keys {
		r := t.rows[k]
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", k[0], k[1],
			r.cases, r.missed, r.ok, r.reaped, r.named, r.late, r.known, r.leaks, r.hangs, r.litter, r.harm, r.invalid, r.slowest)
	}
	_ = tw.Flush()
}
