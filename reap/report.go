package reap

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
)

// Looked is how much a pass has read: it is no news that nothing was found where there was nothing.
type Looked struct {
	Processes int `json:"processes"`
	Records   int `json:"records"`
	Engines   int `json:"engines"`
	// Servers are those in the configurations of the user's clients.
	Servers int `json:"servers"`
}

// Report is the result of a pass.
type Report struct {
	Version  int       `json:"version"`
	Began    time.Time `json:"began"`
	Killed   bool      `json:"killed"`
	Findings []Finding `json:"findings"`
	Warnings []string  `json:"warnings"`
	Looked   Looked    `json:"looked"`
	// Incomplete says what could not be read or done, one text for each user or thing.
	Incomplete []string `json:"incomplete,omitempty"`
}

// Left counts the findings that still stand: listed or survived.
func (r Report) Left() int {
	n := 0
	for _, f := range r.Findings {
		if !f.over() {
			n++
		}
	}
	return n
}

// Survivors names everything that would not end; it may hold control characters.
func (r Report) Survivors() []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Survivors...)
	}
	return out
}

// JSON writes the report as one object.
func (r Report) JSON(w io.Writer) error {
	findings := make([]Finding, len(r.Findings))
	for i, f := range r.Findings {
		f.Members, f.Command, f.Evidence = list(f.Members), list(f.Command), list(f.Evidence)
		findings[i] = f
	}
	r.Findings, r.Warnings = findings, list(r.Warnings)
	return display.JSON(w, r)
}

// list gives a list that is not nil: [] in JSON instead of null.
func list[T any](s []T) []T { return append([]T{}, s...) }

// Text writes the report for people; nothing when there is nothing to say.
func (r Report) Text(w io.Writer) error {
	if len(r.Findings) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CLASS\tPID\tPROCS\tAGE\tMEMORY\tUSER\tGATEWAY\tRESULT\tCOMMAND")
	for _, f := range r.Findings {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Class, display.Number(f.Top.PID), len(f.Members), display.Age(f.AgeSeconds),
			display.Size(f.MemoryBytes), display.Text(f.User), f.Gateway.text(), f.Result, display.Command(f.Command))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "\n%s %s: %s\n", f.Class, display.Text(f.subject()), display.Text(strings.Join(f.Evidence, "; ")))
		for _, c := range f.Containers {
			fmt.Fprintf(w, "  %s: %s\n", display.Text(c.Title()), display.Text(c.Result))
		}
		for _, s := range f.Survivors {
			fmt.Fprintf(w, "  still there: %s\n", display.Text(s))
		}
		if f.Advice != "" {
			fmt.Fprintf(w, "  %s\n", display.Text(f.Advice))
		}
	}
	return r.hint(w)
}

// hint says what to do next. After a kill it speaks only of the findings that the kill left out.
func (r Report) hint(w io.Writer) (err error) {
	hints := []string{
		"proven: 'mcp-tether reap --kill' ends them.",
		"severed: 'mcp-tether reap --kill --unwrapped' ends them as well.",
		"dropped: 'mcp-tether reap --kill --unwrapped' ends them if it is still so after 10 s.",
	}
	counts := make([]int, len(hints))
	for _, f := range r.Findings {
		switch {
		case r.Killed && (f.proven(false) || f.Result != resultListed):
		case f.proven(false):
			counts[0]++
		case f.Class == classSevered:
			counts[1]++
		case f.Class == classDropped:
			counts[2]++
		}
	}
	for i, n := range counts {
		if n > 0 {
			_, err = fmt.Fprintf(w, "\n%d %s\n", n, hints[i])
		}
	}
	return err
}

// subject names what a finding is about.
func (f Finding) subject() string {
	switch {
	case f.Top.PID > 0:
		return "pid " + strconv.Itoa(f.Top.PID)
	case f.Session != "":
		return "session " + f.Session
	}
	return f.Name
}

// text is the gateway for people: "4711 (dead)".
func (g gateway) text() string {
	state := display.Text(g.State)
	if g.PID == 0 {
		return state
	}
	return fmt.Sprintf("%d (%s)", g.PID, state)
}

// Metrics writes the report as a Prometheus text file, replaced by rename.
func (r Report) Metrics(file string) error {
	count, procs, containers, ended := map[class]int{}, map[class]int{}, map[class]int{}, 0
	for _, f := range r.Findings {
		if f.over() {
			ended++
			continue
		}
		count[f.Class]++
		procs[f.Class] += len(f.Members)
		containers[f.Class] += len(f.Containers)
	}
	var b strings.Builder
	gauge := func(name, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name) }
	one := func(name, help string, value int64) {
		gauge(name, help)
		fmt.Fprintf(&b, "%s %d\n", name, value)
	}
	byClass := func(name, help string, of map[class]int) {
		gauge(name, help)
		for _, c := range classes() {
			fmt.Fprintf(&b, "%s{class=%q} %d\n", name, c, of[c])
		}
	}
	byClass("mcp_tether_findings", "Findings left after the last pass.", count)
	byClass("mcp_tether_processes", "Processes of the findings left.", procs)
	byClass("mcp_tether_containers", "Containers of the findings left.", containers)
	one("mcp_tether_ended", "Findings ended by the last pass.", int64(ended))
	one("mcp_tether_incomplete", "Users or things that the last pass could not look after.", int64(len(r.Incomplete)))
	one("mcp_tether_last_pass_seconds", "Time of the last pass.", r.Began.Unix())
	err := proc.Replace(file, []byte(b.String()), func(f *os.File) error { return f.Chmod(0o644) })
	if err != nil {
		return fmt.Errorf("write metrics %s: %w", file, err)
	}
	return nil
}
