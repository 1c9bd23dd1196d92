package display

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"mcp-tether/internal/session"
)

// IDWidth is how much of an id a terminal has. It does for a command.
const IDWidth = 8

const pastColumns = "SESSION\tNAME\tGATEWAY\tSTARTED\tLASTED\tWHY\tEXIT\tENDED\tLEFT\tPEAK\tCOMMAND"

// pastRow are the columns of a session.
func pastRow(p *session.Past) string {
	ended, peak := Number(p.Ended), "-"
	if p.Killed > 0 {
		ended += fmt.Sprintf(", %d by SIGKILL", p.Killed)
	}
	if p.PeakBytes > 0 {
		peak = Size(p.PeakBytes)
	}
	exit := "-"
	if p.Exit >= 0 {
		exit = fmt.Sprint(p.Exit)
	}
	return fmt.Sprintf("%s\t%s\t%d %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", p.ID, OrDash(p.Name), p.Gateway.PID, Text(p.GatewayComm),
		p.Started.Local().Format("Jan 02 15:04"), Age(int64(p.Seconds)), why(p), exit, ended, Number(len(p.Left)), peak, Command(p.Args))
}

// fateRow says what became of a process, below its session.
func fateRow(f *session.Fate) string {
	return fmt.Sprintf("%s\t%s  %d  %s", strings.Repeat("\t", strings.Count(pastColumns, "\t")-1), Text(f.What), f.PID, Text(f.Command))
}

// ListPast prints sessions that are over, a line each, and with a text those of their processes of which it is said. width is that of the
// terminal, 0 for none.
func ListPast(w io.Writer, all []*session.Past, text string, width int) error {
	left := false
	rows := []string{pastColumns}
	for _, p := range all {
		left = left || len(p.Left) > 0
		row := pastRow(p)
		if width > 0 {
			row = row[:IDWidth] + row[len(p.ID):]
		}
		rows = append(rows, row)
		for i := range p.Processes {
			if text != "" && p.Processes[i].Says(text) {
				rows = append(rows, fateRow(&p.Processes[i]))
			}
		}
	}
	return Table(w, rows, width, func(column int) bool { return column == 8 && !left })
}

// ShowPast prints all of one session, a line for each column.
func ShowPast(w io.Writer, p *session.Past) error {
	cells := strings.Split(pastRow(p), "\t")
	var rows []string
	for i, column := range strings.Split(pastColumns, "\t") {
		rows = append(rows, column+"\t"+cells[i])
	}
	rows = append(rows, "NAMES\t"+OrDash(strings.Join(p.Names, ", ")), "KEPT\t"+Number(p.Kept), "CONTAINERS\t"+Number(p.Containers))
	for _, f := range p.Processes {
		rows = append(rows, fmt.Sprintf("PROCESS\t%s: %d %s", Text(f.What), f.PID, Text(f.Command)))
	}
	for _, left := range p.Left {
		rows = append(rows, "LEFT\t"+Text(left))
	}
	for _, line := range p.Stderr {
		rows = append(rows, "STDERR\t"+Text(line))
	}
	for _, s := range p.Starts {
		rows = append(rows, "START\t"+strings.ReplaceAll(pastRow(s), "\t", "  "))
	}
	return Table(w, rows, 0, func(int) bool { return false })
}

// OrDash is a text for a terminal, or a dash for "".
func OrDash(text string) string { return cmp.Or(Text(text), "-") }

// why is the cause of the end, with what a front has done before. Where the front has not ended, it is that of its last start.
func why(s *session.Past) string {
	out := s.Cause
	if s.Signal != "" {
		out = s.Signal
	}
	if s.Open {
		out = "its server: " + out
	}
	if s.OOMKills > 0 {
		out += ", out of memory"
	}
	if s.Sleeps > 0 {
		out += fmt.Sprint(", slept ", s.Sleeps)
	}
	if s.Reaped {
		out += ", ended by reap"
	}
	if s.Restarts > 0 {
		out += fmt.Sprint(", restarted ", s.Restarts)
	}
	return Text(out)
}
