package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// An organisation may say which servers its users start. Claude Code compares the whole command line, word by word
// (code.claude.com/docs/en/managed-mcp), and Codex name and command (github.com/openai/codex/issues/9101). mcp-tether in front of a
// command changes it: what was allowed would be off, and what was denied would start.

// ErrListed says that an organisation's list keeps a server from being wrapped.
var ErrListed = errors.New("an organisation's list")

// lists are what an organisation says about the servers of a client.
type lists []list

// list is what one file says.
type list struct {
	file string
	// denied are the rules that keep a server off.
	denied []rule
	// allowed are the rules of which one must fit, if limits says that there are such. member is what a file calls them.
	limits  bool
	allowed []rule
	member  string
	// entry says what to write into the list so that a command line is allowed.
	entry func(name string, line []string) string
}

// rule names a server, or a command line. Codex compares the first word only.
type rule struct {
	Name    string   `json:"serverName,omitempty"`
	Command []string `json:"serverCommand,omitempty"`
	URL     string   `json:"serverUrl,omitempty"`
	first   bool
}

func (r *rule) fits(name string, line []string) bool {
	switch {
	case r.first:
		return r.Name == name && line[0] == r.Command[0]
	case r.Command != nil:
		return slices.Equal(r.Command, line)
	}
	return r.Name != "" && r.Name == name
}

func (r *rule) String() string {
	text, _ := json.Marshal(r) // texts have no errors
	return string(text)
}

// The places of the lists, below a root directory.
const (
	claudeList  = "/etc/claude-code/managed-settings.json"
	claudeLists = "/etc/claude-code/managed-settings.d/*.json"
	codexList   = "/etc/codex/requirements.toml"
)

// listsBelow reads the lists for a place. A project's file is read by the client that looks for such files. An error says that a list
// cannot be read, so what it says is not known.
func listsBelow(root string, p Place) (l lists, err error) {
	add := func(file string, read func(string) (list, error)) {
		one, failed := read(file)
		switch {
		case errors.Is(failed, fs.ErrNotExist):
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("%w: %s: %w", ErrListed, file, failed))
		default:
			one.file = file
			l = append(l, one)
		}
	}
	if p.Client.Name == claude || filepath.Base(p.Path) == projectFile {
		more, _ := filepath.Glob(root + claudeLists)
		for _, file := range append([]string{root + claudeList}, more...) {
			add(file, readClaudeList)
		}
	}
	if p.Client.Name == codex || p.Client.Name == "" && filepath.Base(filepath.Dir(p.Path)) == ".codex" {
		add(root+codexList, readCodexList)
	}
	return l, err
}

func readClaudeList(file string) (l list, err error) {
	text, _, err := readFile(file, true)
	if err != nil {
		return l, err
	}
	var said struct {
		Denied  []rule  `json:"deniedMcpServers"`
		Allowed *[]rule `json:"allowedMcpServers"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return l, err
	}
	l.denied, l.member = said.Denied, "allowedMcpServers"
	if l.limits = said.Allowed != nil; !l.limits {
		return l, nil
	}
	// Where commands are named, names alone allow nothing that is started.
	named := slices.ContainsFunc(*said.Allowed, func(r rule) bool { return r.Command != nil })
	for _, r := range *said.Allowed {
		if (r.Command != nil) == named {
			l.allowed = append(l.allowed, r)
		}
	}
	l.entry = func(_ string, line []string) string { return (&rule{Command: line}).String() }
	return l, nil
}

func readCodexList(file string) (l list, err error) {
	text, _, err := readFile(file, true)
	if err != nil {
		return l, err
	}
	doc, err := parse(text, TOML)
	if err != nil {
		return l, err
	}
	servers, limits := doc["mcp_servers"].(map[string]any)
	l.limits, l.member = limits, "mcp_servers"
	for name, v := range servers {
		table, _ := v.(map[string]any)
		identity, _ := table["identity"].(map[string]any)
		if command, ok := identity["command"].(string); ok {
			l.allowed = append(l.allowed, rule{Name: name, Command: []string{command}, first: true})
		}
	}
	l.entry = func(name string, line []string) string {
		return "[mcp_servers." + quote(name) + "] identity = { command = " + quote(line[0]) + " }"
	}
	return l, nil
}

// allows reports whether a list lets a server start so.
func (l *list) allows(name string, line []string) bool {
	return !l.limits || slices.ContainsFunc(l.allowed, func(r rule) bool { return r.fits(name, line) })
}

// judge says why a server is not to be wrapped, or, if it is already, what is wrong with that. before is the command line without this
// program, after that with it.
func (l lists) judge(name string, wrapped bool, before, after []string) error {
	var not []string
	for i := range l {
		one := &l[i]
		for _, r := range one.denied {
			if !r.fits(name, before) && !r.fits(name, after) {
				continue
			}
			if wrapped && !r.fits(name, after) {
				return fmt.Errorf("%w: %s denies what it starts (%s), and wrapped it starts all the same: mcp-tether unwrap --server %s", ErrListed, one.file, &r, name)
			}
			return fmt.Errorf("%w: %s denies it (%s)", ErrListed, one.file, &r)
		}
		switch {
		case one.allows(name, after):
		case !one.allows(name, before):
			not = append(not, fmt.Sprintf("%s does not allow it (%s), wrapped or not", one.file, one.member))
		default:
			not = append(not, fmt.Sprintf("%s allows it bare, and wrapped it would be off: add to %s: %s", one.file, one.member, one.entry(name, after)))
		}
	}
	if len(not) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrListed, strings.Join(not, "; "))
}
