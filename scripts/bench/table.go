package main

import (
	"fmt"
	"math"
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

// String is the table in Markdown.
func (t table) String() string {
	var s strings.Builder
	head := append([]string{"", ""}, t.Columns...)
	fmt.Fprintf(&s, "### %s\n\n| %s |\n|---|---|%s\n", t.Title, strings.Join(head, " | "), strings.Repeat("---:|", len(t.Columns)))
	for _, r := range t.Rows {
		fmt.Fprintf(&s, "| %s |\n", strings.Join(append([]string{r.Subject, r.Case}, r.cells(len(t.Columns))...), " | "))
	}
	return s.String() + "\n"
}

func (r row) cells(n int) []string {
	if r.Missing {
		return append([]string{"not installed"}, make([]string, n-1)...)
	}
	var cells []string
	for _, v := range r.Values {
		cells = append(cells, figure(v))
	}
	return cells
}

// figure prints about three digits: more would only be noise.
func figure(v float64) string {
	digits := 2
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return "never"
	case v == math.Trunc(v) || size >= 1000:
		digits = 0
	case size >= 100:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
