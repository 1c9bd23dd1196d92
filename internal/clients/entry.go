package clients

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"mcp-tether/internal/jsonedit"
)

// entry is where the entry of one server stands in a configuration's text.
type entry struct {
	keys []string
	// command is the value of the member command, and args are the words of the member args. list is where args stands,
	// brackets included; nil if there is no such member. With joined, all words stand in the list of the member command.
	joined  bool
	command word
	args    []word
	list    *span
	// argsStart is where the name of args stands. Missing args are put in front of the name of command, which stands at
	// commandStart: head comes before their value and tail after it.
	argsStart, commandStart int
	head, tail              string
	// env is what the entry adds to the environment.
	env map[string]any
	// err says why the entry cannot be changed.
	err error
}

type span struct{ start, end int }

// word is a string as it stands in the text, and what it means.
type word struct {
	span
	text string
}

// Why an entry is left alone.
var (
	errForm   = errors.New("it is written in a form that cannot be rewritten")
	errDouble = errors.New("it says twice what it starts")
)

// tables are the places at which clients keep their servers, from the top of the document. A star is any name. Amp's name has
// a dot in it. In opencode's table, "mcp", other clients have settings.
var tables = [...]string{"mcpServers", "mcp_servers", "context_servers", "mcp/servers", "servers", "projects/*/mcpServers", "amp.mcpServers", openTable}

const openTable = "mcp"

// isTable reports whether keys lead to a table of servers.
func isTable(keys []string) bool {
	for _, t := range tables {
		want := strings.Split(t, "/")
		same := len(want) == len(keys)
		for i := 0; same && i < len(want); i++ {
			same = want[i] == "*" || want[i] == keys[i]
		}
		if same {
			return true
		}
	}
	return false
}

// others are the servers that are not started as processes in a form that is known.
type others struct {
	// remote are the names of those that are reached by network, and unread of those that do not say how they are started.
	remote, unread []string
}

// entries finds the servers that are started as processes.
func entries(text []byte, format Format) (found []entry, o others, err error) {
	if format == TOML {
		return tomlEntries(text)
	}
	root, err := jsonedit.Parse(text)
	if err != nil {
		return nil, o, err
	}
	if root.Kind != jsonedit.Object {
		return nil, o, jsonedit.ErrNotObject
	}
	j := jsonReader{text: text}
	j.walk(&root, nil, false)
	return j.found, j.others, nil
}

// jsonReader collects the entries of JSON and its relatives.
type jsonReader struct {
	text  []byte
	found []entry
	others
}

// walk searches for entries below keys. double says that one of the keys is there twice, so that readers may not see n.
func (j *jsonReader) walk(n *jsonedit.Node, keys []string, double bool) {
	count := map[string]int{}
	for i := range n.Members {
		count[n.Members[i].Name]++
	}
	for i := range n.Members {
		m := &n.Members[i]
		below, double := slices.Concat(keys, []string{m.Name}), double || count[m.Name] > 1
		switch {
		case isTable(keys) && j.entry(&m.Value, below, double):
		case isTable(keys) && (len(keys) > 1 || keys[0] != openTable):
			j.unread = append(j.unread, m.Name)
		case m.Value.Kind == jsonedit.Object && len(below) < maxNesting:
			j.walk(&m.Value, below, double)
		}
	}
}

// entry reads the members of one server. It reports whether n is one.
func (j *jsonReader) entry(n *jsonedit.Node, keys []string, double bool) bool {
	e := entry{keys: keys}
	if double {
		e.err = errDouble
	}
	var command, args, url *jsonedit.Member
	for i := range n.Members {
		switch m := &n.Members[i]; m.Name {
		case "command":
			if command != nil {
				e.err = errDouble
			}
			command = m
		case "args":
			if args != nil {
				e.err = errDouble
			}
			args = m
		case "url", "httpUrl", "serverUrl":
			url = m
		}
	}
	if command == nil {
		if url != nil {
			j.remote = append(j.remote, keys[len(keys)-1])
		}
		return url != nil
	}
	if e.joined = args == nil && len(command.Value.Items) > 0 && command.Value.Items[0].Text != ""; e.joined {
		e.setArgs(command)
	} else {
		e.setCommand(j.text, command)
	}
	if args != nil {
		e.setArgs(args)
	}
	if e.joined && e.err == nil {
		e.command, e.args = e.args[0], e.args[1:]
	}
	j.found = append(j.found, e)
	return true
}

func (e *entry) setCommand(text []byte, m *jsonedit.Member) {
	if m.Value.Kind != jsonedit.String || m.Value.Text == "" {
		e.err = errForm
		return
	}
	e.command = word{span{m.Value.Start, m.Value.End}, m.Value.Text}
	e.commandStart = m.Start
	// The name args gets the same quotes as its neighbour, and the same distance from the colon.
	e.head = strings.Replace(string(text[m.Start:m.NameEnd]), "command", "args", 1) + string(text[m.NameEnd:m.Value.Start])
	e.tail = "," + gapBefore(text, m.Start)
}

func (e *entry) setArgs(m *jsonedit.Member) {
	e.argsStart, e.list = m.Start, &span{m.Value.Start, m.Value.End}
	if m.Value.Kind != jsonedit.Array {
		e.err = errForm
		return
	}
	for _, item := range m.Value.Items {
		if item.Kind != jsonedit.String {
			e.err = errForm
			return
		}
		e.args = append(e.args, word{span{item.Start, item.End}, item.Text})
	}
}

// gapBefore is the white space in front of a place, from the last line's end on; one space where there is none.
func gapBefore(text []byte, at int) string {
	before := text[:at]
	gap := before[len(bytes.TrimRight(before, " \t\r\n")):]
	if i := bytes.LastIndexByte(gap, '\n'); i > 0 {
		gap = gap[i:]
		if before[len(before)-len(gap)-1] == '\r' {
			return "\r" + string(gap)
		}
	}
	if len(gap) == 0 {
		return " "
	}
	return string(gap)
}
