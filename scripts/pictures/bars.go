package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// measure is a column of a table that scripts/bench prints.
type measure struct {
	title, unit string
	heading     string // how the heading of the table begins
	column      string
	second      string // the second cell of the rows that count; "" for a table that has figures there
}

// measures are what is drawn, one panel each.
func measures() []measure {
	return []measure{
		{"added at start, median", "ms", "### Start-up", "added ms", ""},
		{"memory of a session (PSS), median", "MB", "### Memory", "PSS median MB", "whole session"},
		{"50 processes dead after the gateway's SIGKILL", "ms", "### Gateway SIGKILLed", "servers dead ms", "50"},
	}
}

// wrappers are the rows that are drawn, in this order.
func wrappers() []string { return []string{"mcp-tether", "tini", "bubblewrap"} }

// bar is one value. A wrapper that was not installed has none.
type bar struct {
	name  string
	value float64
}

// read finds the bars of a measure in the text.
func (m measure) read(text string) ([]bar, error) {
	_, table, found := strings.Cut(text, "\n"+m.heading)
	if !found {
		return nil, fmt.Errorf("no table %q", m.heading)
	}
	var head []string
	var bars []bar
	for line := range strings.Lines(table) {
		cells := cellsOf(line)
		switch {
		case cells == nil && head != nil:
			return bars, m.check(bars)
		case cells == nil:
		case head == nil:
			head = cells
		case slices.Contains(wrappers(), cells[0]) && (m.second == "" || cells[1] == m.second):
			at := slices.Index(head, m.column)
			if at < 0 || at >= len(cells) {
				return nil, fmt.Errorf("%s: no column %q", m.heading, m.column)
			}
			if value, err := strconv.ParseFloat(cells[at], 64); err == nil {
				bars = append(bars, bar{cells[0], value})
			}
		}
	}
	return bars, m.check(bars)
}

func (m measure) check(bars []bar) error {
	if len(bars) == 0 || bars[0].name != wrappers()[0] {
		return fmt.Errorf("%s: no figure of %s", m.heading, wrappers()[0])
	}
	return nil
}

// cellsOf splits a line of a table; nil for any other line.
func cellsOf(line string) []string {
	line, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !isRow {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// barPicture draws all measures below each other.
func barPicture(text string) (string, error) {
	const left, longest, row, panel = 110, 380, 22, 110
	all := measures()
	c := canvas{width: 600, height: 14 + panel*len(all), title: "What mcp-tether, tini and bubblewrap cost; shorter is better"}
	for i, m := range all {
		bars, err := m.read(text)
		if err != nil {
			return "", err
		}
		top, most := 24+panel*i, 0.0
		for _, b := range bars {
			most = max(most, b.value)
		}
		c.text(20, top, "head", m.title)
		for j, b := range bars {
			y, class := top+10+row*j, "bar"
			if j == 0 {
				class = "mine"
			}
			width := max(1, int(b.value/max(most, 1e-9)*longest))
			c.text(20, y+14, "", b.name)
			c.rect(left, y+2, width, row-6, class)
			c.text(left+width+8, y+14, "small", strconv.FormatFloat(b.value, 'g', 4, 64)+" "+m.unit)
		}
	}
	return c.String(), nil
}
