package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// What each of them is, for people.
var parts = map[string]string{
	"server":     "answers, and exits on EOF",
	"worker":     "child of the server",
	"helper":     "setsid, double fork, no env",
	"mcp-tether": "anchor and supervisor",
}

// columns is how wide a line may be: that of a terminal.
const columns = 80

func printRun(out io.Writer, r run) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  PID\tPROCESS\tWHAT IT IS\tWHAT BECAME OF IT")
	fmt.Fprintf(table, "  %d\tgateway\tstarts the server\tSIGKILLed\n", r.gateway)
	for _, m := range r.members {
		pid := "-"
		if m.pid != 0 {
			pid = fmt.Sprint(m.pid)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", pid, m.name, parts[m.name], fate(m))
	}
	table.Flush()
	if log := strings.TrimSpace(r.log); log != "" {
		fmt.Fprintf(out, "  its log:\n%s", fold(log, "    "))
	}
}

// fold breaks each line between words where it would be too wide. A word is never broken.
func fold(text, indent string) string {
	var folded strings.Builder
	for line := range strings.Lines(text) {
		width := columns
		for _, word := range strings.Fields(line) {
			if width+1+len(word) > columns {
				folded.WriteString("\n" + indent + word)
				width = len(indent) + len(word)
				continue
			}
			folded.WriteString(" " + word)
			width += 1 + len(word)
		}
	}
	return strings.TrimPrefix(folded.String(), "\n") + "\n"
}

func fate(m member) string {
	if m.dead {
		return "ended after " + milliseconds(m.after)
	}
	return "STILL THERE"
}

func printSummary(out io.Writer, bare, tethered run) {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  RUN\tSTARTED\tSURVIVORS\tLAST DEATH AFTER")
	for _, row := range []struct {
		title    string
		r        run
		patience time.Duration
	}{{"bare", bare, barePatience}, {"tethered", tethered, tetheredPatience}} {
		last := milliseconds(row.r.lastDeath())
		if row.r.left() > 0 {
			last = fmt.Sprintf("never (watched for %v)", row.patience)
		}
		fmt.Fprintf(table, "  %s\t%d\t%d\t%s\n", row.title, len(row.r.members), row.r.left(), last)
	}
	table.Flush()
}

func printWeights(out io.Writer, all []weight) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  SESSIONS\tPROCESSES\tMEMORY (PSS)\tOF ONE SESSION")
	for _, w := range all {
		fmt.Fprintf(table, "  %s\t%d\t%.1f MB\t%d kB\n", w.kind, w.processes, float64(w.memory)/1e3, w.memory/many)
	}
	table.Flush()
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
