package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"mcp-tether/internal/argv"
)

// Program is the name of this program in the configurations of clients.
const Program = "mcp-tether"

// Options say how servers are to be started.
type Options struct {
	// Path is the command that clients start: a path, or Program where that is found by name. "" leaves the command of
	// servers that are wrapped already, and is Program for others.
	Path string
	// Absolute is in place of Path for a server that has a PATH of its own, where some clients look for the command.
	Absolute string
	// Flags are those of run. Nil leaves the flags of servers that are wrapped already.
	Flags []string
	lists lists
	// Unwrap takes the program away again.
	Unwrap bool
}

// Change is what happens to one server.
type Change struct {
	// Name is the server's, and Keys lead to its entry.
	Name string
	Keys []string
	// Wanted says that the server was chosen, Wrapped how its entry is now, and Edited whether that would be changed.
	Wanted, Wrapped, Edited bool
	// Old and New are its command line in the text before and after.
	Old, New []string
	// Err says why it is left alone.
	Err error
}

// Bare reports whether the server was chosen, and starts without this program although nothing keeps it from being wrapped.
func (c *Change) Bare() bool {
	return c.Wanted && !c.Wrapped && !errors.Is(c.Err, errIndirect) && !errors.Is(c.Err, ErrListed)
}

// Plan is what is to become of a text.
type Plan struct {
	Text []byte
	// Changes are about each server that is started as a process, in the order of the text.
	Changes []Change
	// Remote are the names of the servers that are reached by network, and Unread of those that do not say how they start.
	Remote, Unread []string
}

// errNotUTF8 says that the text can be neither JSON nor TOML, which are UTF-8 (RFC 8259, section 8.1).
var errNotUTF8 = errors.New("it is not UTF-8 text; save it as UTF-8 and try again")

// rewrite wraps or unwraps the servers that want chooses; it is asked once for each of Changes. Every byte that has nothing
// to do with how these servers are started stays as it is.
func rewrite(text []byte, format Format, o Options, want func(name string) bool) (Plan, error) {
	if !utf8.Valid(text) {
		// Names are compared, and readers disagree on names that are not UTF-8.
		return Plan{}, errNotUTF8
	}
	found, other, err := entries(text, format)
	if err != nil {
		return Plan{}, err
	}
	before, err := parse(text, format)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Remote: other.remote, Unread: other.unread}
	var edits []edit
	for i := range found {
		e := &found[i]
		c := Change{Name: e.name, Keys: e.keys, Err: e.err, Wrapped: e.commandAt() > 0}
		if c.Wanted = want(c.Name); c.Wanted && c.Err == nil {
			var mine []edit
			mine, c.Err = e.plan(text, o)
			c.Edited = len(mine) > 0
			edits = append(edits, mine...)
		}
		p.Changes = append(p.Changes, c)
	}
	sort.SliceStable(edits, func(a, b int) bool { return edits[a].start < edits[b].start })
	p.Text = apply(text, edits)
	if err := verify(before, p.Text, format, p.Changes, o); err != nil {
		return Plan{}, err // nothing would change
	}
	return p, nil
}

// edit puts new text in the place of old.
type edit struct {
	span
	text string
}

func apply(text []byte, edits []edit) []byte {
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, text[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, text[at:]...)
}

// errIndirect says that an entry starts this program in a way of its own, or seems to.
var errIndirect = errors.New("it names " + Program + " in a way of its own: change it by hand")

// errNoCommand says that an entry starts this program, but no server.
var errNoCommand = errors.New("it does not start as " + Program + " run and a command, so no server runs: add -- and the server's command")

// errForClient says that the client itself makes words or a path of a command.
var errForClient = errors.New("only some clients take a line or ~ as command: write the program's path, and its words in args")

// forClient reports whether a command is a whole line, or begins in a home directory: as an argument of ours it would be neither.
func forClient(command string) bool {
	first, _, line := strings.Cut(command, " ")
	return strings.HasPrefix(command, "~") || line && !strings.ContainsAny(first, `/\`)
}

// errComments says that comments stand among the words that would go.
var errComments = errors.New("there are comments among the words of " + Program + ": change it by hand")

// namesUs reports whether this program is among the words of an entry, be it as a package with a version, or in a line for a shell.
func (e *entry) namesUs() bool {
	return slices.ContainsFunc(append(e.words(), e.command.text), func(word string) bool {
		for part := range strings.FieldsSeq(word) {
			if name, _, _ := strings.Cut(path.Base(strings.Trim(part, `"'`)), "@"); name == Program {
				return true
			}
		}
		return false
	})
}

// commandAt is the index in args of the command that a wrapped entry starts in the end; 0 where the entry is not wrapped.
func (e *entry) commandAt() int {
	if path.Base(e.command.text) != Program || len(e.args) < 2 || e.args[0].text != "run" {
		return 0
	}
	if n := 1 + argv.CommandAt(e.words()[1:]); n < len(e.args) {
		return n
	}
	return 0
}

func (e *entry) words() []string {
	words := make([]string, len(e.args))
	for i, a := range e.args {
		words[i] = a.text
	}
	return words
}

// plan gives the edits that an entry needs, or says why it is left alone.
func (e *entry) plan(text []byte, o Options) (edits []edit, err error) {
	at := e.commandAt()
	switch {
	case at == 0 && path.Base(e.command.text) == Program:
		return nil, errNoCommand
	case at == 0 && e.namesUs(), path.Base(e.started(at)[0]) == Program:
		return nil, errIndirect
	case o.Unwrap && at > 0:
		return e.unwrap(text, at)
	case o.Unwrap:
		return nil, nil
	case at == 0 && strings.HasPrefix(e.command.text, "-"):
		return nil, errForm // run would take it for a flag
	case at == 0 && forClient(e.command.text):
		return nil, errForClient
	case at == 0 && !e.joined && e.array != nil && len(e.args) == 0 && !onlySpace(text, e.array.start+1, e.array.end-1):
		return nil, errForm // unwrap could not tell the comments in the list from others
	}
	if slices.Contains(e.env, "PATH") && at == 0 {
		o.Path = cmp.Or(o.Path, o.Absolute)
	}
	var name []string
	if at > 0 {
		name = argv.NameWords(e.words()[1:e.flagsEnd(at)])
	}
	// A server that has no name gets its key for one, so that ps and stop speak of it as the user does.
	if (at == 0 || o.Flags != nil) && argv.NameWords(o.Flags) == nil {
		if name == nil && e.name != "" && !slices.Contains(e.env, argv.EnvName) {
			name = []string{"--name", e.name}
		}
		o.Flags = append(name[:len(name):len(name)], o.Flags...)
	}
	if err := o.lists.judge(e.name, at > 0, e.started(at), e.line(at, o)); err != nil {
		return nil, err
	}
	if at == 0 {
		return e.wrap(text, o), nil
	}
	return e.rewrap(text, at, o)
}

// started is the command line that an entry starts in the end.
func (e *entry) started(at int) []string {
	if at > 0 {
		return e.words()[at:]
	}
	return append([]string{e.command.text}, e.words()...)
}

// line is the command line of an entry once it is wrapped with these options.
func (e *entry) line(at int, o Options) []string {
	program, flags := cmp.Or(o.Path, Program), o.Flags
	if at > 0 {
		program = cmp.Or(o.Path, e.command.text)
		if flags == nil {
			flags = e.words()[1:e.flagsEnd(at)]
		}
	}
	out := append([]string{program, "run"}, flags...)
	if at > 0 && e.flagsEnd(at) < at || at == 0 && (e.joined || e.array != nil) {
		out = append(out, "--")
	}
	return append(out, e.started(at)...)
}

// flagsEnd is where the flags of a wrapped entry end in args; they begin at 1.
func (e *entry) flagsEnd(at int) int {
	if e.args[at-1].text == "--" {
		return at - 1
	}
	return at
}

// wrap puts "mcp-tether run FLAGS --" in front. The command moves into the list as it is spelled, or is there already. An entry
// without a list gets one without "--": so unwrap knows that there was none.
func (e *entry) wrap(text []byte, o Options) []edit {
	program := cmp.Or(o.Path, Program)
	command := string(text[e.command.start:e.command.end])
	words := append([]string{"run"}, o.Flags...)
	if e.joined {
		return []edit{{span{e.command.start, e.command.start}, quoteAll(append([]string{program}, append(words, "--")...))}}
	}
	edits := []edit{{e.command.span, quote(program)}}
	if e.array == nil {
		list := quoteAll(words) + command
		return append(edits, edit{span{e.commandStart, e.commandStart}, e.head + "[" + list + "]" + e.tail})
	}
	list := quoteAll(append(words, "--")) + command
	at := e.array.start + 1
	if len(e.args) > 0 {
		at = e.args[0].start
		list += "," + gapBefore(text, at)
	}
	return append(edits, edit{span{at, at}, list})
}

// unwrap undoes wrap, or what a user has written by hand.
func (e *entry) unwrap(text []byte, at int) ([]edit, error) {
	command := e.args[at]
	if e.joined {
		if !onlySpace(text, e.command.end, e.args[0].start) || !e.plainUpTo(text, at) {
			return nil, errComments
		}
		return []edit{{span{e.command.start, command.start}, ""}}, nil
	}
	edits := []edit{{e.command.span, string(text[command.start:command.end])}}
	gone := span{e.args[0].start, command.end}
	switch rest := text[command.end:e.array.end]; {
	case at+1 < len(e.args):
		gone.end = e.args[at+1].start
	case e.args[at-1].text != "--" && e.argsStart < e.commandStart && onlySpace(text, e.array.start+1, gone.start) &&
		onlySpace(text, gone.end, e.array.end-1) && onlySpace(text, e.array.end, e.commandStart):
		gone = span{e.argsStart, e.commandStart} // wrap has added the list
	default: // An empty list has no comma.
		if trimmed := bytes.TrimLeft(rest, " \t\r\n"); trimmed[0] == ',' {
			gone.end += len(rest) - len(trimmed) + 1
		} else if trimmed[0] != ']' {
			return nil, errComments
		}
	}
	if !e.plainUpTo(text, at) || at+1 < len(e.args) && !onlySpace(text, command.end, e.args[at+1].start) {
		return nil, errComments
	}
	return append(edits, edit{gone, ""}), nil
}

// plainUpTo reports whether nothing but commas and white space stands between the words up to one of them.
func (e *entry) plainUpTo(text []byte, at int) bool {
	for i := range at {
		if !onlySpace(text, e.args[i].end, e.args[i+1].start) {
			return false
		}
	}
	return true
}

// onlySpace reports whether nothing but commas and white space stands between two places.
func onlySpace(text []byte, from, to int) bool {
	return len(bytes.Trim(text[from:to], ", \t\r\n")) == 0
}

// rewrap changes the flags and the path of a wrapped entry, where the user gave new ones.
func (e *entry) rewrap(text []byte, at int, o Options) ([]edit, error) {
	var edits []edit
	if o.Path != "" && o.Path != e.command.text {
		edits = append(edits, edit{e.command.span, quote(o.Path)})
	}
	end := e.flagsEnd(at)
	if o.Flags == nil || slices.Equal(o.Flags, e.words()[1:end]) {
		return edits, nil
	}
	if !e.plainUpTo(text, end) {
		return nil, errComments
	}
	flags := strings.TrimSuffix(quoteAll(o.Flags), ", ")
	if end == 1 { // there were none
		return append(edits, edit{span{e.args[0].end, e.args[0].end}, ", " + flags}), nil
	}
	gone := span{e.args[1].start, e.args[end-1].end}
	if flags == "" {
		gone.end = e.args[end].start
	}
	return append(edits, edit{gone, flags}), nil
}

// quote writes a word as JSON and TOML both read it.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string has no errors
	return strings.TrimSpace(b.String())
}

// quoteAll quotes words, each with a comma behind it.
func quoteAll(words []string) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(quote(w) + ", ")
	}
	return b.String()
}
