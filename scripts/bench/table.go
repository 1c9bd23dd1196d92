package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table is the result of one section.
type table struct {
	Title   string
	Columns []string
	Rows    []row
}

// row is one subject in one case. Values stand under the table's columns; NaN is "no such figure".
type row struct {
	Subject string
	Case    string
	Values  []float64
	Missing bool
}

func (t *table) add(subject, kase string, values ...float64) {
	t.Rows = append(t.Rows, row{Subject: subject, Case: kase, Values: values})
}

func (t *table) missing(subject, kase string) {
	t.Rows = append(t.Rows, row{Subject: subject, Case: kase, Missing: true})
}

func (t table) markdown(w io.Writer) error {
	var s strings.Builder
	withCase := slices.ContainsFunc(t.Rows, func(r row) bool { return r.Case != "" })
	fmt.Fprintf(&s, "### %s\n\n", t.Title)
	head := []string{""}
	if withCase {
		head = append(head, "")
	}
	head = append(head, t.Columns...)
	fmt.Fprintf(&s, "| %s |\n|%s\n", strings.Join(head, " | "), rule(len(head)-len(t.Columns), len(t.Columns)))
	for _, r := range t.Rows {
		cells := []string{r.Subject}
		if withCase {
			cells = append(cells, r.Case)
		}
		fmt.Fprintf(&s, "| %s |\n", strings.Join(append(cells, r.cells(t.whole())...), " | "))
	}
	s.WriteString("\n")
	if _, err := io.WriteString(w, s.String()); err != nil {
		return fmt.Errorf("print the results: %w", err)
	}
	return nil
}

func rule(left, right int) string {
	return strings.Repeat("---|", left) + strings.Repeat("---:|", right)
}

// whole tells which columns hold counts only; those are printed without decimals.
func (t table) whole() []bool {
	whole := make([]bool, len(t.Columns))
	for i := range whole {
		whole[i] = true
		for _, r := range t.Rows {
			if i < len(r.Values) && !math.IsNaN(r.Values[i]) && r.Values[i] != math.Trunc(r.Values[i]) {
				whole[i] = false
			}
		}
	}
	return whole
}

func (r row) cells(whole []bool) []string {
	cells := make([]string, len(whole))
	if r.Missing {
		cells[0] = "not installed"
		return cells
	}
	for i, v := range r.Values {
		cells[i] = figure(v, whole[i])
	}
	return cells
}

// figure prints about three digits: more would only be noise.
func figure(v float64, whole bool) string {
	digits := 2
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return "never"
	case whole || size >= 1000:
		digits = 0
	case size >= 100:
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if text == "-0.00" {
		return "0.00"
	}
	return text
}
