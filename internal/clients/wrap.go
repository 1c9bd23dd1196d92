package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"mcp-tether/internal/argv"
)

// Program is the name of this program in the configurations of clients.
const Program = "mcp-tether"

// Wrapping says how servers are to be started.
type Wrapping struct {
	// Path is the command that clients start: a path, or Program where that is found by name. "" leaves the command of
	// servers that are wrapped already, and is Program for others.
	Path string
	// PathIn gives Path for a server that has a PATH of its own, where some clients look for the command. Nil gives Path.
	PathIn func(dirs string) (string, error)
	// Flags are those of run. Nil leaves the flags of servers that are wrapped already.
	Flags []string
	// Preset is the client whose preset is given to servers without flags, unless Flags are given. The zero Client has
	// none.
	Preset Client
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
	// Preset says that the server gets the client's preset. Lost says what it would lose asleep, and so why it does not.
	Preset bool
	Lost   string
	// Hunks are the lines that differ.
	Hunks []Hunk
	// Err says why it is left alone.
	Err error
}

// Rewritten is what Rewrite makes of a text.
type Rewritten struct {
	Text []byte
	// Changes are about each server that is started as a process, in the order of the text.
	Changes []Change
	// Remote are the names of the servers that are reached by network, and Unread of those that do not say how they start.
	Remote, Unread []string
}

// Preset is how many servers get the client's preset.
func (r Rewritten) Preset() (n int) {
	for _, c := range r.Changes {
		if c.Preset {
			n++
		}
	}
	return n
}

// Hunk is a run of lines before and after. Line is the number of the first one, from 1.
type Hunk struct {
	Line     int
	Old, New []string
}

// Rewrite wraps or unwraps the servers that want chooses; it is asked once for each of Changes. Every byte that has nothing
// to do with how these servers are started stays as it is.
func Rewrite(text []byte, format Format, w Wrapping, want func(name string) bool) (Rewritten, error) {
	if !utf8.Valid(text) {
		// Names are compared, and readers disagree on names that are not UTF-8.
		return Rewritten{}, errNotUTF8
	}
	found, o, err := entries(text, format)
	if err != nil {
		return Rewritten{}, err
	}
	before, err := parse(text, format)
	if err != nil {
		return Rewritten{}, err
	}
	r := Rewritten{Remote: o.remote, Unread: o.unread}
	var edits []edit
	for i := range found {
		e := &found[i]
		c := Change{Name: e.keys[len(e.keys)-1], Keys: e.keys, Err: e.err, Wrapped: e.commandAt() > 0}
		if c.Wanted = want(c.Name); c.Wanted && c.Err == nil {
			e.env, _ = environment(lookup(before, e.keys)).(map[string]any)
			mine := e.rewrite(text, w, &c)
			inOrder(mine)
			c.Edited, c.Hunks = len(mine) > 0, hunks(text, mine)
			edits = append(edits, mine...)
		}
		r.Changes = append(r.Changes, c)
	}
	inOrder(edits)
	r.Text = apply(text, edits)
	if err := meant(before, r.Text, format, r.Changes, w); err != nil {
		return Rewritten{}, err // nothing would change
	}
	return r, nil
}

// edit puts new text in the place of old.
type edit struct {
	span
	text string
}

func inOrder(edits []edit) {
	sort.SliceStable(edits, func(a, b int) bool { return edits[a].start < edits[b].start })
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

// hunks are the lines that edits touch. The edits are in order.
func hunks(text []byte, edits []edit) []Hunk {
	var all []Hunk
	for i := 0; i < len(edits); {
		start := bytes.LastIndexByte(text[:edits[i].start], '\n') + 1
		end, first := lineEnd(text, edits[i].end), i
		for i++; i < len(edits) && edits[i].start <= end+1; i++ {
			end = lineEnd(text, edits[i].end)
		}
		inner := make([]edit, 0, i-first)
		for _, e := range edits[first:i] {
			inner = append(inner, edit{span{e.start - start, e.end - start}, e.text})
		}
		old := text[start:end]
		all = append(all, Hunk{1 + bytes.Count(text[:start], []byte("\n")), linesOf(old), linesOf(apply(old, inner))})
	}
	return all
}

// lineEnd is the end of the line that a place is in.
func lineEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(text)
}

func linesOf(text []byte) []string {
	all := strings.Split(string(text), "\n")
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], "\r")
	}
	return all
}

// ErrIndirect says that an entry starts this program in a way of its own.
var ErrIndirect = errors.New("it starts " + Program + " in a way of its own")

// errNoCommand says that an entry starts this program, but no server.
var errNoCommand = errors.New("it does not start as " + Program + " run and a command, so no server runs")

// ownWay says why an entry that starts this program is left alone, unless it is wrapped. It is nil for an entry that
// starts another program.
func (e *entry) ownWay() error {
	words := e.words()
	direct := path.Base(e.command.text) == Program
	switch {
	case !direct && startsRun(words):
		return ErrIndirect
	case direct || PackageOf(e.command.text, words) == Program:
		return errNoCommand
	}
	return nil
}

// namesProject reports whether the last of the words is a flag of a runner (uv, npm, pnpm, poetry, bun, docker compose) that is
// followed by a directory or the name of a project.
func namesProject(words []string) bool {
	if len(words) == 0 {
		return false
	}
	switch words[len(words)-1] {
	case "--directory", "--project", "--prefix", "--dir", "--cwd", "-C", "--project-name", "--workspace", "--filter":
		return true
	case "-p": // of others it has no value
		return slices.Contains(words, "compose")
	}
	return false
}

// takesLine reports whether a flag may be followed by a line for a shell: -lc of a shell, --call of npx.
func takesLine(flag string) bool {
	return flag == "--call" || flag == "--command" || strings.LastIndexByte(flag, '-') == 0 && strings.HasSuffix(flag, "c")
}

// startsRun reports whether this program is among the words, be it as a package with a version, and "run" and a command
// follow. A line for a shell is one of the words, after a flag such as -lc. A directory of that name starts nothing.
func startsRun(words []string) bool {
	for i, w := range words {
		if i > 0 && takesLine(words[i-1]) && startsRun(strings.Fields(w)) {
			return true
		}
		if strings.HasPrefix(w, "-") || namesProject(words[:i]) {
			continue
		}
		if name, _, _ := strings.Cut(path.Base(strings.Trim(w, `"'`)), "@"); name != Program {
			continue
		}
		rest := words[i+1:]
		if len(rest) > 0 && rest[0] == "--" { // of npm exec
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0] == "run" && argv.CommandAt(rest[1:]) < len(rest)-1 {
			return true
		}
	}
	return false
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

// envName is the variable that gives the name, too.
const envName = "MCP_TETHER_NAME"

// rewrite gives the edits that an entry needs, and says in c what becomes of it.
func (e *entry) rewrite(text []byte, w Wrapping, c *Change) []edit {
	at := e.commandAt()
	if at == 0 {
		c.Err = e.ownWay()
	}
	switch {
	case c.Err != nil:
		return nil
	case w.Unwrap && at > 0:
		return e.unwrap(text, at)
	case w.Unwrap:
		return nil
	case at == 0 && strings.HasPrefix(e.command.text, "-"):
		c.Err = errForm // run would take it for a flag
		return nil
	}
	if dirs, own := e.env["PATH"].(string); own && at == 0 && w.Path == "" && w.PathIn != nil {
		if w.Path, c.Err = w.PathIn(dirs); c.Err != nil {
			return nil
		}
	}
	var flags, name []string
	if at > 0 {
		flags = e.words()[1:e.flagsEnd(at)]
		name = argv.NameWords(flags)
	}
	if w.Flags == nil && len(flags) == len(name) {
		w.Flags, c.Lost = w.Preset.preset(e.started(at))
		c.Preset = w.Flags != nil
	}
	// A server that has no name gets its key for one, so that ps and stop speak of it as the user does.
	if (at == 0 || w.Flags != nil) && argv.NameWords(w.Flags) == nil {
		if name == nil && c.Name != "" && e.env[envName] == nil {
			name = []string{"--name", c.Name}
		}
		w.Flags = append(name[:len(name):len(name)], w.Flags...)
	}
	if at > 0 {
		return e.rewrap(text, at, w)
	}
	return e.wrap(text, w)
}

// started is the command line that an entry starts in the end.
func (e *entry) started(at int) (command string, args []string) {
	if at == 0 {
		return e.command.text, e.words()
	}
	return e.args[at].text, e.words()[at+1:]
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
func (e *entry) wrap(text []byte, w Wrapping) []edit {
	program := w.Path
	if program == "" {
		program = Program
	}
	command := string(text[e.command.start:e.command.end])
	words := append([]string{"run"}, w.Flags...)
	if e.joined {
		return []edit{{span{e.command.start, e.command.start}, quoteAll(append([]string{program}, append(words, "--")...))}}
	}
	edits := []edit{{e.command.span, quote(program)}}
	if e.list == nil {
		list := quoteAll(words) + command
		return append(edits, edit{span{e.commandStart, e.commandStart}, e.head + "[" + list + "]" + e.tail})
	}
	list := quoteAll(append(words, "--")) + command
	at := e.list.start + 1
	if len(e.args) > 0 {
		at = e.args[0].start
		list += "," + gapBefore(text, at)
	}
	return append(edits, edit{span{at, at}, list})
}

// unwrap undoes wrap, or what a user has written by hand. Comments stay.
func (e *entry) unwrap(text []byte, at int) []edit {
	command := e.args[at]
	if e.joined {
		return []edit{{span{e.command.start, command.start}, e.comments(text, span{e.command.end, command.start})}}
	}
	edits := []edit{{e.command.span, string(text[command.start:command.end])}}
	gone := span{e.args[0].start, command.end}
	if at+1 < len(e.args) {
		gone.end = e.args[at+1].start
	} else if e.args[at-1].text != "--" && e.argsStart < e.commandStart && e.addedList(text) {
		return append(edits, edit{span{e.argsStart, e.commandStart}, ""})
	} else if comma := e.commaAfter(text, at); comma > 0 {
		gone.end = comma + 1 // an empty list has no comma
	}
	return append(edits, edit{gone, e.comments(text, gone)})
}

// commaAfter is where the comma after the last word stands; 0 where there is none.
func (e *entry) commaAfter(text []byte, last int) int {
	for at := e.args[last].end; at < e.list.end; at = max(at+1, commentEnd(text, at)) {
		if text[at] == ',' {
			return at
		}
	}
	return 0
}

// comments are the comments in a part of the list.
func (e *entry) comments(text []byte, in span) (kept string) {
	for at := in.start; at < in.end; {
		if end := commentEnd(text, at); end > 0 {
			kept += string(text[at:end])
			at = end
			continue
		}
		at++
		for _, w := range e.args {
			if w.start == at-1 { // there are no comments in it
				at = max(at, w.end)
			}
		}
	}
	return kept
}

// commentEnd is the end of the comment that begins at a place outside words, and of the white space behind it; 0 where
// none begins.
func commentEnd(text []byte, at int) int {
	if text[at] != '#' && text[at] != '/' {
		return 0
	}
	end := lineEnd(text, at)
	if bytes.HasPrefix(text[at:], []byte("/*")) {
		end = min(len(text), at+2+bytes.Index(text[at+2:], []byte("*/"))+2)
	}
	for end < len(text) && text[end] <= ' ' {
		end++
	}
	return end
}

// addedList reports whether nothing but a comma and white space stands between the list and the name of the command after
// it, and no comment in the list.
func (e *entry) addedList(text []byte) bool {
	return len(bytes.Trim(text[e.list.end:e.commandStart], ", \t\r\n")) == 0 && e.comments(text, *e.list) == ""
}

// rewrap changes the flags and the path of a wrapped entry, where the user gave new ones.
func (e *entry) rewrap(text []byte, at int, w Wrapping) []edit {
	var edits []edit
	if w.Path != "" && w.Path != e.command.text {
		edits = append(edits, edit{e.command.span, quote(w.Path)})
	}
	end := e.flagsEnd(at)
	if w.Flags != nil && !slices.Equal(w.Flags, e.words()[1:end]) {
		flags := strings.TrimSuffix(quoteAll(w.Flags), ", ")
		switch {
		case end == 1: // there were none
			edits = append(edits, edit{span{e.args[0].end, e.args[0].end}, ", " + flags})
		default:
			gone := span{e.args[1].start, e.args[end-1].end}
			if flags == "" {
				gone.end = e.args[end].start
			}
			edits = append(edits, edit{gone, e.comments(text, gone) + flags})
		}
	}
	return edits
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

// errNotUTF8 says that the text can be neither JSON nor TOML, which are UTF-8 (RFC 8259, section 8.1).
var errNotUTF8 = errors.New("it is not UTF-8 text; save it as UTF-8 and try again")

// errNotMeant says that the new text does not say what it should. This cannot happen unless there is a mistake in this
// package.
var errNotMeant = errors.New("the new text would not say what it should; please report this")

// meant reads the new text as a client would. Each server must start what it started before, and the changed ones in
// the way that was asked for.
func meant(before map[string]any, out []byte, format Format, changes []Change, w Wrapping) error {
	after, err := parse(out, format)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotMeant, err)
	}
	for _, c := range changes {
		a, b := lookup(before, c.Keys), lookup(after, c.Keys)
		if a == nil && b == nil {
			continue // an entry in a form that is left alone
		}
		if a == nil || b == nil || !sameServer(a, b) {
			return fmt.Errorf("%w: server %s", errNotMeant, c.Name)
		}
		if wrapped := isWrapped(b); c.Edited && wrapped == w.Unwrap {
			return fmt.Errorf("%w: server %s", errNotMeant, c.Name)
		}
		delete(a, "command")
		delete(a, "args")
		delete(b, "command")
		delete(b, "args")
	}
	if !equal(before, after) {
		return fmt.Errorf("%w: something else differs", errNotMeant)
	}
	return nil
}

// lookup follows keys to an entry.
func lookup(doc map[string]any, keys []string) map[string]any {
	for _, k := range keys {
		doc, _ = doc[k].(map[string]any)
	}
	return doc
}

func sameServer(a, b map[string]any) bool {
	x, y := server(a), server(b)
	commandA, argsA := x.unwrapped()
	commandB, argsB := y.unwrapped()
	return commandA == commandB && slices.Equal(argsA, argsB) && x.Partial == y.Partial
}

func isWrapped(entry map[string]any) bool {
	s := server(entry)
	command, _ := s.unwrapped()
	return command != s.Command
}

// equal compares two documents by how they print, because two values that are no number (NaN) must be equal as well.
func equal(a, b map[string]any) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) }
