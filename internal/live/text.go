package live

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
)

// JSON writes the sessions as one object, and says what could not be read.
func JSON(w io.Writer, all []Session, unread []string) error {
	return display.JSON(w, struct {
		Version    int       `json:"version"`
		Sessions   []Session `json:"sessions"`
		Incomplete []string  `json:"incomplete,omitempty"`
	}{display.SchemaVersion, append([]Session{}, all...), unread}) // [] instead of null
}

// Text writes a line for each session, in colours where a terminal has them.
func Text(out *os.File, all []Session, v View) error {
	on := display.Coloured(out)
	for i, line := range linesOf(all, v) {
		shade := ""
		if on {
			if shade = colour(&line, false); i == 0 {
				shade = display.Bold
			}
		}
		if _, err := fmt.Fprintln(out, display.Paint(on, shade, v.cut(line.Text))); err != nil {
			return fmt.Errorf("write the sessions: %w", err)
		}
	}
	return nil
}

// View is how much is shown.
type View struct {
	// Tree shows each process and container, and Users whose the sessions are.
	Tree, Users bool
	// Width is that of the terminal, in characters; 0 where there is none.
	Width int
}

// line is one line of the list, as text for a terminal.
type line struct {
	Text string
	// Session is the one that begins here, and Gateway says that sessions of another gateway follow.
	Session *Session
	Gateway bool
}

// cut cuts a line to the width of the terminal.
func (v View) cut(line string) string {
	if text := []rune(line); v.Width > 0 && len(text) > v.Width {
		return string(text[:v.Width-1]) + "…"
	}
	return line
}

const heading = "USER\tSESSION\tNAME\tSTATE\tGATEWAY\tSERVER\tPROCS\tCONTAINERS\tMEMORY\tCPU\tAGE\tCOMMAND"

// Full are rows that say all of one session, a column each, and then its processes and containers.
func (l *Session) Full() (rows []string) {
	cells := strings.Split(l.row([]Session{*l}, View{Users: true}), "\t")
	for i, column := range strings.Split(heading, "\t") {
		rows = append(rows, column+"\t"+cells[i])
	}
	for _, n := range l.Tree {
		rows = append(rows, fmt.Sprintf("PROCESS\t%s%d %s %s", n.indent(), n.PID, display.Size(n.MemoryBytes), display.Command(n.Command)))
	}
	for _, c := range l.Containers {
		rows = append(rows, "CONTAINER\t"+display.Text(c.ShortID()+" "+c.Title()))
	}
	return rows
}

// linesOf are the sessions below the names of the columns. As a tree, those of one gateway are together, below it; the order of the
// gateways is that of their eldest sessions.
func linesOf(all []Session, v View) []line {
	lines := []line{{Text: heading}}
	containers, shown := 0, make([]bool, len(all))
	for i := range all {
		containers += len(all[i].Containers)
	}
	for i := range all {
		if v.Tree && !shown[i] {
			lines = append(lines, line{Text: all[i].gateway(), Gateway: true})
		}
		for j := i; j < len(all); j++ {
			if l := &all[j]; !shown[j] && (j == i || v.Tree && l.Gateway == all[i].Gateway && l.UID == all[i].UID) {
				shown[j] = true
				lines = append(lines, l.lines(all, v)...)
			}
		}
	}
	v.align(lines, containers)
	return lines
}

// row are the columns of one session.
func (l *Session) row(all []Session, v View) string {
	user, id := "", display.Text(l.ID)
	if v.Users {
		user = display.Text(display.User(l.UID))
	}
	if v.Width > 0 {
		id = id[:min(len(id), display.IDWidth)]
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", user, id, display.OrDash(l.Name), l.state()+l.apart(all), l.gateway(),
		display.Number(l.Server.PID), l.procs(), l.countContainers(), l.memory(), l.cpu(), display.Age(l.AgeSeconds), v.command(l.Args))
}

// lines are those of one session.
func (l *Session) lines(all []Session, v View) []line {
	lines := []line{{Session: l, Text: l.row(all, v)}}
	for _, row := range append(l.attached(), l.tree(v)...) {
		lines = append(lines, line{Text: row})
	}
	return lines
}

// columns is how many columns there are.
const columns = 12

// align makes columns of what is between the tabs. A gateway's line has no part in them, but without tabs it would end them.
func (v View) align(lines []line, containers int) {
	rows := make([]string, len(lines))
	for i, line := range lines {
		if rows[i] = line.Text; line.Gateway {
			rows[i] = strings.Repeat("\t", columns-1)
		}
	}
	var table bytes.Buffer // which takes everything
	_ = display.Table(&table, rows, 0, func(column int) bool { return v.leavesOut(column, containers) })
	for i, text := range strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n") {
		if !lines[i].Gateway {
			lines[i].Text = text
		}
	}
}

// procs, memory and cpu are what a session uses, and its limit where there is one. The limit of memory counts what the cgroup has.
func (l Session) procs() string {
	if l.Leaf == nil || l.Leaf.PidsMax == 0 {
		return fmt.Sprint(l.Procs)
	}
	return fmt.Sprintf("%d/%d", l.Leaf.Pids, l.Leaf.PidsMax)
}

func (l Session) memory() string {
	if l.Leaf == nil || l.Leaf.MemoryMax == 0 {
		return display.Size(l.MemoryBytes)
	}
	return display.Size(l.Leaf.MemoryBytes) + "/" + display.Size(l.Leaf.MemoryMax)
}

func (l Session) cpu() string {
	out := fmt.Sprintf("%.1f%%", l.CPUPercent)
	if l.Leaf != nil && l.Leaf.CPUMax > 0 {
		out += fmt.Sprintf("/%d%%", l.Leaf.CPUMax)
	}
	return out
}

// leavesOut reports whether a view does without a column.
func (v View) leavesOut(column, containers int) bool {
	switch column {
	case 0: // USER
		return !v.Users
	case 4: // GATEWAY
		return v.Tree
	case 5: // SERVER
		return v.Width > 0 && !v.Tree
	case 7: // CONTAINERS
		return v.Width > 0 && containers == 0
	}
	return false
}

// command is a command line, on a terminal without the directories of npm's programs.
func (v View) command(args []string) string {
	line := display.Command(args)
	const bin = "/node_modules/.bin/"
	if at := strings.Index(line, bin); v.Width > 0 && at >= 0 {
		line = line[:1+strings.LastIndexByte(line[:at], ' ')] + line[at+len(bin):]
	}
	return line
}

// state is the state of the session, with the cause of its end, how often its server slept or was restarted, and why it does
// not sleep.
func (l Session) state() string {
	out := l.State
	if l.Cause != "" {
		out += " (" + l.Cause + ")"
	}
	if l.Kept != "" {
		out += ": " + l.Kept
	}
	if l.Sleeps > 0 {
		out += fmt.Sprintf(", slept %d, woke %d", l.Sleeps, l.Wakes)
	}
	if l.Awake != "" {
		out += ", awake: " + l.Awake
	}
	if l.Sleepless != "" {
		out += ", sleeps no more: " + l.Sleepless
	}
	if l.Restarts > 0 {
		out += fmt.Sprintf(", restarted %d", l.Restarts)
	}
	if s := l.Sharing; s != nil {
		out += fmt.Sprintf(", shared by %d", len(s.Sessions))
	}
	return display.Text(out)
}

// apart says in which parts of its key a shared server differs from the eldest one of the same command; "" if there is none.
func (l Session) apart(all []Session) string {
	i := slices.IndexFunc(all, func(o Session) bool { return o.Sharing != nil && slices.Equal(o.Args, l.Args) })
	if l.Sharing == nil || i < 0 || all[i].ID == l.ID {
		return ""
	}
	var names []string
	for name, digest := range l.Sharing.Parts {
		if all[i].Sharing.Parts[name] != digest {
			names = append(names, display.Text(name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ", apart by " + strings.Join(names, ", ")
}

func (l Session) gateway() string {
	if l.GatewayState == proc.Alive.String() {
		name := ""
		if words := strings.Fields(l.GatewayCommand); len(words) > 0 {
			name = " " + clients.ProgramOf(words)
		}
		return fmt.Sprint(l.Gateway.PID) + display.Text(name)
	}
	return fmt.Sprintf("%d (%s)", l.Gateway.PID, display.Text(l.GatewayState))
}

// attached lists the sessions that share the server, each by the process that its gateway has started.
func (l Session) attached() (rows []string) {
	if l.Sharing == nil {
		return nil
	}
	for _, a := range l.Sharing.Sessions {
		rows = append(rows, fmt.Sprintf("\t\t\tattached\t%d\t%d\t\t\t\t\t\tmcp-tether run --share", a.Gateway.PID, a.PID))
	}
	return rows
}

// countContainers is the number of containers, a question mark when the engine did not answer.
func (l Session) countContainers() string {
	if l.silent {
		return "?"
	}
	return fmt.Sprint(len(l.Containers))
}

// maxIndent bounds how far a process is moved to the right.
const maxIndent = 32

// indent moves a process below its parent. Another user may have written any depth.
func (p Process) indent() string { return strings.Repeat("  ", min(max(p.Depth, 0), maxIndent)) }

func (l Session) tree(v View) (rows []string) {
	if !v.Tree {
		return nil
	}
	for _, n := range l.Tree {
		rows = append(rows, fmt.Sprintf("\t\t\t\t\t%d\t\t\t%s\t\t\t%s%s", n.PID, display.Size(n.MemoryBytes), n.indent(), v.command(n.Command)))
	}
	for _, c := range l.Containers {
		rows = append(rows, fmt.Sprintf("\t\t\t\t\t\t\t%s\t\t\t\t%s", display.Text(c.ShortID()), display.Text(c.Title())))
	}
	return rows
}
