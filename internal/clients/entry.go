package clients

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// entry is where the entry of one server stands in a configuration's text.
type entry struct {
	// keys lead to it from the top of the document; in a list the key is a number. name is the server's.
	keys []string
	name string
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
	errForm   = errors.New("it is written in a form that cannot be rewritten: change it by hand")
	errDouble = errors.New("it says twice what it starts: remove one")
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

// maxNesting bounds the tables within tables in which servers are looked for.
const maxNesting = 8

// others is what else a configuration says.
type others struct {
	// remote are the names of the servers that are reached by network, and unread of those that do not say how they are started.
	remote, unread []string
	// projects are the directories in which Claude Code has worked.
	projects []string
}

// ErrByHand says that a file is in a language that is not read.
var ErrByHand = errors.New("it is YAML or XML, which is not rewritten: write mcp-tether run --name NAME -- in front of the command by hand")

// entries finds the servers that are started as processes.
func entries(text []byte, format Format) (found []entry, o others, err error) {
	switch format {
	case TOML:
		return tomlEntries(text)
	case foreign:
		return nil, o, ErrByHand
	}
	root, err := Parse(text)
	if err != nil {
		return nil, o, err
	}
	if root.Kind != Object {
		return nil, o, ErrNotObject
	}
	j := jsonReader{text: text}
	j.walk(&root, nil, false)
	if len(j.found)+len(j.remote)+len(j.unread) == 0 && isBareTable(&root) {
		for i := range root.Members {
			j.entry(&root.Members[i].Value, []string{root.Members[i].Name}, false)
		}
	}
	for i := range root.Members {
		if m := &root.Members[i]; m.Name == "projects" {
			for k := range m.Value.Members {
				j.projects = append(j.projects, m.Value.Members[k].Name)
			}
		}
	}
	return j.found, j.others, nil
}

// isBareTable reports whether a document is a table of servers itself, as of some plugins: each of its members is a server.
func isBareTable(root *Node) bool {
	return !slices.ContainsFunc(root.Members, func(m Member) bool {
		return !slices.ContainsFunc(m.Value.Members, func(m Member) bool {
			return (m.Name == "command" || isURL(m.Name)) && m.Value.Kind == String
		})
	})
}

// jsonReader collects the entries of JSON and its relatives.
type jsonReader struct {
	text  []byte
	found []entry
	others
}

// walk searches for entries below keys. double says that one of the keys is there twice, so that readers may not see n.
func (j *jsonReader) walk(n *Node, keys []string, double bool) {
	count := map[string]int{}
	for i := range n.Members {
		count[n.Members[i].Name]++
	}
	for i := range n.Members {
		m := &n.Members[i]
		below, double := slices.Concat(keys, []string{m.Name}), double || count[m.Name] > 1
		open := len(keys) == 1 && keys[0] == openTable
		switch {
		case isTable(keys) && !(open && isSettings(&m.Value)) && j.entry(&m.Value, below, double):
		case isTable(keys) && !open:
			j.unread = append(j.unread, m.Name)
		case m.Value.Kind == Object && len(below) < maxNesting:
			j.walk(&m.Value, below, double)
		}
	}
}

// isSettings reports whether an object in a table that holds more than servers is none: what it calls command or url is an object, as
// where servers have these names.
func isSettings(n *Node) bool {
	return slices.ContainsFunc(n.Members, func(m Member) bool {
		return (m.Name == "command" || isURL(m.Name)) && m.Value.Kind == Object
	})
}

// isURL reports whether a member gives the address of a server that is reached by network.
func isURL(name string) bool { return name == "url" || name == "httpUrl" || name == "serverUrl" }

// entry reads the members of one server. It reports whether n is one.
func (j *jsonReader) entry(n *Node, keys []string, double bool) bool {
	e := entry{keys: keys, name: keys[len(keys)-1]}
	members := map[string]*Member{}
	remote := false
	for i := range n.Members {
		m := &n.Members[i]
		double = double || (m.Name == "command" || m.Name == "args") && members[m.Name] != nil
		remote = remote || isURL(m.Name)
		members[m.Name] = m
	}
	command, args := members["command"], members["args"]
	switch {
	case command == nil && remote:
		j.remote = append(j.remote, e.name)
		return true
	case command == nil:
		return false
	}
	if e.joined = args == nil && len(command.Value.Items) > 0 && command.Value.Items[0].Text != ""; e.joined {
		args = command
	} else {
		e.setCommand(j.text, command)
	}
	if args != nil {
		e.setArgs(args)
	}
	if e.joined && len(e.args) > 0 {
		e.command, e.args = e.args[0], e.args[1:]
	}
	if double {
		e.err = errDouble
	}
	j.found = append(j.found, e)
	return true
}

func (e *entry) setCommand(text []byte, m *Member) {
	if m.Value.Kind != String || m.Value.Text == "" {
		e.err = errForm
		return
	}
	e.command = word{span{m.Value.Start, m.Value.End}, m.Value.Text}
	e.commandStart = m.Start
	// The name args gets the same quotes as its neighbour, and the same distance from the colon.
	e.head = strings.Replace(string(text[m.Start:m.NameEnd]), "command", "args", 1) + string(text[m.NameEnd:m.Value.Start])
	e.tail = "," + gapBefore(text, m.Start)
}

func (e *entry) setArgs(m *Member) {
	e.argsStart, e.list = m.Start, &span{m.Value.Start, m.Value.End}
	if m.Value.Kind != Array {
		e.err = errForm
		return
	}
	for _, item := range m.Value.Items {
		if item.Kind != String {
			e.err = errForm
			continue
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
