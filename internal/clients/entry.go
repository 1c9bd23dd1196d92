package clients

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// entry is where the entry of one server stands in a configuration's text.
type entry struct {
	// keys lead to it from the top of the document; in a list the key is a number. name is the server's.
	keys []string
	name string
	// command is the value of the member command, and args are the words of the member args. array is where args stands,
	// brackets included; nil if there is no such member. With joined, all words stand in the array of the member command.
	joined  bool
	command word
	args    []word
	array   *span
	// argsStart is where the name of args stands. Missing args are put in front of the name of command, which stands at
	// commandStart: head comes before their value and tail after it.
	argsStart, commandStart int
	head, tail              string
	// env are the names of the variables that the entry sets.
	env []string
	// err says why the entry cannot be changed.
	err error
}

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

// errByHand says that a file is in a language that is not read.
var errByHand = errors.New("it is YAML or XML, which is not rewritten: write mcp-tether run --name NAME -- in front of the command by hand")

// entries finds the servers that are started as processes.
func entries(text []byte, format Format) (found []entry, o others, err error) {
	if format == foreign {
		return nil, o, errByHand
	}
	root, err := treeOf(text, format)
	if err != nil {
		return nil, o, err
	}
	r := entryReader{text: text}
	r.walk(&root, nil, false)
	if format == TOML {
		return r.found, r.others, nil
	}
	if len(r.found)+len(r.remote)+len(r.unread) == 0 && isBareTable(&root) {
		for i := range root.members {
			r.entry(&root.members[i].value, []string{root.members[i].name}, root.members[i].name, false)
		}
	}
	for i := range root.members {
		if m := &root.members[i]; m.name == "projects" {
			for k := range m.value.members {
				r.projects = append(r.projects, m.value.members[k].name)
			}
		}
	}
	return r.found, r.others, nil
}

// treeOf reads a text as it stands.
func treeOf(text []byte, format Format) (root node, err error) {
	if format == TOML {
		return parseTOML(text)
	}
	if root, err = parseJSON(text); err == nil && root.kind != objectKind {
		err = errNotObject
	}
	return root, err
}

// isBareTable reports whether a document is a table of servers itself, as of some plugins: each of its members is a server.
func isBareTable(root *node) bool {
	return !slices.ContainsFunc(root.members, func(m member) bool {
		return !slices.ContainsFunc(m.value.members, func(m member) bool {
			return (m.name == "command" || isURL(m.name)) && m.value.kind == stringKind
		})
	})
}

// entryReader collects the entries of a text.
type entryReader struct {
	text  []byte
	found []entry
	others
}

// walk searches for entries below keys. double says that one of the keys is there twice, so that readers may not see n.
func (r *entryReader) walk(n *node, keys []string, double bool) {
	count := map[string]int{}
	for i := range n.members {
		count[n.members[i].name]++
	}
	for i := range n.members {
		m := &n.members[i]
		below, double := slices.Concat(keys, []string{m.name}), double || count[m.name] > 1
		open := len(keys) == 1 && keys[0] == openTable
		switch {
		case isTable(keys) && !(open && isSettings(&m.value)) && r.entry(&m.value, below, m.name, double):
		case isTable(keys) && !open:
			r.unread = append(r.unread, m.name)
		case m.value.kind == arrayKind && isTable(below):
			r.tables(&m.value, below)
		case m.value.kind == objectKind && len(below) < maxNesting:
			r.walk(&m.value, below, double)
		}
	}
}

// tables reads a list of tables, as TOML has them: each names its server.
func (r *entryReader) tables(n *node, keys []string) {
	for i := range n.items {
		if item := &n.items[i]; item.lines {
			r.entry(item, slices.Concat(keys, []string{strconv.Itoa(i)}), cmp.Or(item.member("name").text, strconv.Itoa(i)), false)
		}
	}
}

// isSettings reports whether an object in a table that holds more than servers is none: what it calls command or url is an object, as
// where servers have these names.
func isSettings(n *node) bool {
	return slices.ContainsFunc(n.members, func(m member) bool {
		return (m.name == "command" || isURL(m.name)) && m.value.kind == objectKind
	})
}

// isURL reports whether a member gives the address of a server that is reached by network.
func isURL(name string) bool { return name == "url" || name == "httpUrl" || name == "serverUrl" }

// entry reads the members of one server. It reports whether n is one.
func (r *entryReader) entry(n *node, keys []string, name string, double bool) bool {
	e := entry{keys: keys, name: name}
	members := map[string]*member{}
	remote := false
	for i := range n.members {
		m := &n.members[i]
		double = double || (m.name == "command" || m.name == "args") && members[m.name] != nil
		remote = remote || isURL(m.name)
		members[m.name] = m
		if m.name == "env" || m.name == "environment" { // as opencode says
			for k := range m.value.members {
				e.env = append(e.env, m.value.members[k].name)
			}
		}
	}
	command, args := members["command"], members["args"]
	switch {
	case command == nil && remote:
		r.remote = append(r.remote, e.name)
		return true
	case command == nil:
		return false
	}
	if e.joined = args == nil && len(command.value.items) > 0 && command.value.items[0].text != ""; e.joined {
		args = command
	} else {
		e.setCommand(r.text, command, n.lines)
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
	r.found = append(r.found, e)
	return true
}

// setCommand takes the command. With lines, a member has a line of its own. A name that is spelled with escapes cannot be made args.
func (e *entry) setCommand(text []byte, m *member, lines bool) {
	if m.value.kind != stringKind || m.value.text == "" || !bytes.Contains(text[m.start:m.end], []byte("command")) {
		e.err = errForm
		return
	}
	e.command = word{m.value.span, m.value.text}
	e.commandStart = m.keyStart
	// The name args gets the same quotes as its neighbour, and the same distance from the colon.
	e.head = string(text[m.keyStart:m.start]) + strings.Replace(string(text[m.start:m.end]), "command", "args", 1) + string(text[m.end:m.value.start])
	gap := gapBefore(text, m.keyStart)
	switch {
	case !lines:
		e.tail = "," + gap
	case strings.Contains(gap, "\n"):
		e.tail = gap
	default: // the first line of the text
		e.tail = "\n"
	}
}

func (e *entry) setArgs(m *member) {
	e.argsStart, e.array = m.keyStart, &m.value.span
	if m.value.kind != arrayKind {
		e.err = errForm
		return
	}
	for _, item := range m.value.items {
		if item.kind != stringKind {
			e.err = errForm
			continue
		}
		e.args = append(e.args, word{item.span, item.text})
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
