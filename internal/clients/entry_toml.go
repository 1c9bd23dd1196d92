package clients

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlReader collects the entries of TOML.
type tomlReader struct {
	text   []byte
	parser unstable.Parser
	// byKeys are the indexes into found, by the joined keys. The lines of a table come one after the other, and a table
	// may be written in parts.
	byKeys map[string]int
	found  []entry
	// lists says how many tables a list has so far, by its name.
	lists map[string]int
	others
}

func tomlEntries(text []byte) ([]entry, others, error) {
	bom := len(text) - len(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	t := tomlReader{text: text, byKeys: map[string]int{}, lists: map[string]int{}}
	t.parser.Reset(text[bom:])
	var table []string
	for t.parser.NextExpression() {
		e := t.parser.Expression()
		switch e.Kind {
		case unstable.Table:
			table = t.inList(t.keys(nil, e.Key()))
		case unstable.ArrayTable:
			if table = t.keys(nil, e.Key()); len(table) > 1 {
				table = []string{""} // no table of servers has this name
				break
			}
			t.lists[table[0]]++
			table = t.inList(table)
		case unstable.KeyValue:
			t.line(table, e, bom, "\n")
		}
	}
	if err := t.parser.Error(); err != nil {
		return nil, others{}, err
	}
	var found []entry
	for _, e := range t.found {
		if e.command.end > 0 || e.err != nil {
			found = append(found, e)
		}
	}
	return found, t.others, nil
}

// inList puts the number of the latest table of a list behind the list's name.
func (t *tomlReader) inList(keys []string) []string {
	if n := t.lists[keys[0]]; n > 0 {
		return slices.Insert(keys, 1, strconv.Itoa(n-1))
	}
	return keys
}

func (t *tomlReader) keys(above []string, it unstable.Iterator) []string {
	all := append([]string(nil), above...)
	for it.Next() {
		all = append(all, string(it.Node().Data))
	}
	return all
}

// line reads "key = value" in the given table, or in an inline table. between is what separates two of them.
func (t *tomlReader) line(table []string, kv *unstable.Node, bom int, between string) {
	keys := t.keys(table, kv.Key())
	if len(keys) > maxNesting {
		return
	}
	value := kv.Value()
	if value.Kind == unstable.InlineTable {
		for it := value.Children(); it.Next(); {
			t.line(keys, it.Node(), bom, ", ")
		}
		return
	}
	if len(keys) < 2 || !isTable(keys[:len(keys)-2]) {
		return
	}
	first, last := t.ends(kv)
	start, nameStart, nameEnd := int(first.Offset)+bom, int(last.Offset)+bom, int(last.Offset+last.Length)+bom
	switch keys[len(keys)-1] {
	case "command":
		e := t.entry(keys[:len(keys)-1])
		if value.Kind != unstable.String || len(value.Data) == 0 {
			e.err = errForm
			return
		}
		at := span{int(value.Raw.Offset) + bom, int(value.Raw.Offset+value.Raw.Length) + bom}
		e.command, e.commandStart = word{at, string(value.Data)}, start
		e.head = string(t.text[start:nameStart]) + "args" + string(t.text[nameEnd:at.start])
		if e.tail = between; between == "\n" {
			e.tail = t.lineEnd(start) + t.indent(start)
		}
	case "args":
		e := t.entry(keys[:len(keys)-1])
		e.argsStart = start
		t.args(e, value, nameEnd, bom)
	case "url":
		t.remote = append(t.remote, keys[len(keys)-2])
	case "name":
		if t.lists[keys[0]] > 0 && value.Kind == unstable.String {
			t.entry(keys[:len(keys)-1]).name = string(value.Data)
		}
	}
}

// ends are the first and the last part of a key.
func (t *tomlReader) ends(kv *unstable.Node) (first, last unstable.Range) {
	for it := kv.Key(); it.Next(); {
		if last = it.Node().Raw; first.Length == 0 {
			first = last
		}
	}
	return first, last
}

// entry returns the entry with these keys, and adds it if it is new.
func (t *tomlReader) entry(keys []string) *entry {
	name := ""
	for _, k := range keys {
		name += k + "\x00"
	}
	i, known := t.byKeys[name]
	if !known {
		i = len(t.found)
		t.byKeys[name] = i
		t.found = append(t.found, entry{keys: keys, name: keys[len(keys)-1]})
	}
	return &t.found[i]
}

// args reads a list of words. The parser does not say where the list stands, but where its words do.
func (t *tomlReader) args(e *entry, value *unstable.Node, nameEnd, bom int) {
	open := bytes.IndexByte(t.text[nameEnd:], '[')
	if value.Kind != unstable.Array || open < 0 {
		e.err = errForm
		return
	}
	e.list = &span{start: nameEnd + open}
	end := e.list.start + 1
	for it := value.Children(); it.Next(); {
		n := it.Node()
		if n.Kind == unstable.Comment {
			continue
		}
		if n.Kind != unstable.String {
			e.err = errForm
			return
		}
		at := span{int(n.Raw.Offset) + bom, int(n.Raw.Offset+n.Raw.Length) + bom}
		e.args = append(e.args, word{at, string(n.Data)})
		end = at.end
	}
	var err error
	if e.list.end, err = closing(t.text, end); err != nil {
		e.err = err
	}
}

// closing is the place behind the bracket that closes a list, after its last word.
func closing(text []byte, at int) (int, error) {
	for ; at < len(text); at++ {
		switch text[at] {
		case ']':
			return at + 1, nil
		case '#':
			n := bytes.IndexByte(text[at:], '\n')
			if n < 0 {
				return 0, errNoEnd
			}
			at += n
		}
	}
	return 0, errNoEnd
}

var errNoEnd = errors.New("its list of arguments has no end: mend it")

// lineEnd is what ends the line before a place, as some systems write two characters.
func (t *tomlReader) lineEnd(at int) string {
	if before := t.text[:at-len(t.indent(at))]; bytes.HasSuffix(before, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// indent is the white space between the beginning of a line and a place.
func (t *tomlReader) indent(at int) string {
	before := t.text[:at]
	return string(before[len(bytes.TrimRight(before, " \t")):])
}
