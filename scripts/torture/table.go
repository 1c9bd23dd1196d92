//go:build linux && amd64

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
	cases, missed                                    int
	ok, reaped, named, leaks, hangs, litter, invalid int
}

func (t *table) add(k Case, r Result) {
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
	switch r.Verdict {
	case verdictOK:
		row.ok++
	case verdictReaped:
		row.reaped++
	case verdictNamed:
		row.named++
	case verdictLeak:
		row.leaks++
	case verdictHang:
		row.hangs++
	case verdictLitter:
		row.litter++
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

// failed counts the cases that break the promise. Litter, which reap has named and could not clear yet, is shown only: an
// engine that never answered a create, for one, is asked again later.
func (t *table) failed() (n int) {
	invalid := 0
	for _, r := range t.rows {
		n += r.leaks + r.hangs
		invalid += r.invalid
	}
	if invalid*100 > t.total() {
		n += invalid // the campaign itself does not work
	}
	return n
}

// print writes the table. missed cases are those whose session made fewer such calls than when they were counted; reaped
// ones left what reap --kill cleared, named ones processes that the closing event names.
func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "mode\tfault\tcases\tmissed\tok\treaped\tnamed\tleaks\thangs\tlitter\tinvalid\t")
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
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", k[0], k[1], r.cases, r.missed, r.ok, r.reaped, r.named, r.leaks, r.hangs, r.litter, r.invalid)
	}
	_ = tw.Flush()
}
