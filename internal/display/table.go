package display

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes rows of cells that tabs separate, without the columns that leavesOut names. Lines are cut to the width of a
// terminal, in characters; 0 is for none.
func Table(w io.Writer, rows []string, width int, leavesOut func(column int) bool) error {
	var table bytes.Buffer
	t := tabwriter.NewWriter(&table, 2, 8, 2, ' ', 0)
	for _, row := range rows {
		var kept []string
		for i, cell := range strings.Split(row, "\t") {
			if !leavesOut(i) {
				kept = append(kept, cell)
			}
		}
		fmt.Fprintln(t, strings.Join(kept, "\t"))
	}
	_ = t.Flush() // a buffer takes everything
	for line := range strings.Lines(table.String()) {
		if text := []rune(line); width > 0 && len(text) > width {
			line = string(text[:width-1]) + "…\n"
		}
		if _, err := io.WriteString(w, line); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	return nil
}
