package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"

	"mcp-tether/internal/argv"
)

// errNotMeant says that the new text does not say what it should. This cannot happen unless there is a mistake in this
// package.
var errNotMeant = errors.New("the new text would not say what it should; please report this")

// verify reads the new text as a client would, and takes the command lines from there. Each server must start what it started before,
// and the changed ones in the way that was asked for.
func verify(before map[string]any, out []byte, format Format, changes []Change, o Options) error {
	after, err := parse(out, format)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotMeant, err)
	}
	for i := range changes {
		c := &changes[i]
		a, b := lookup(before, c.Keys), lookup(after, c.Keys)
		if a == nil && b == nil {
			continue // an entry in a form that is left alone
		}
		lineA, wrappedA := lineOf(a, &c.Old)
		lineB, wrappedB := lineOf(b, &c.New)
		if !reflect.DeepEqual(lineA, lineB) || !c.Edited && wrappedA != wrappedB || c.Edited && wrappedB == o.Unwrap {
			return fmt.Errorf("%w: server %s", errNotMeant, c.Name)
		}
		for _, table := range []map[string]any{a, b} {
			delete(table, "command")
			delete(table, "args")
		}
	}
	// NaN is no number, but equal to NaN here.
	if fmt.Sprintf("%#v", before) != fmt.Sprintf("%#v", after) {
		return fmt.Errorf("%w: something else differs", errNotMeant)
	}
	return nil
}

// lookup follows keys to an entry.
func lookup(doc map[string]any, keys []string) map[string]any {
	at := any(doc)
	for _, k := range keys {
		switch v := at.(type) {
		case map[string]any:
			at = v[k]
		case []any:
			n, err := strconv.Atoi(k)
			if err != nil || n < 0 || n >= len(v) {
				return nil
			}
			at = v[n]
		default:
			return nil
		}
	}
	table, _ := at.(map[string]any)
	return table
}

// lineOf is the command line that an entry starts in the end, with what is no text in it, and whether that is by way of this program.
// all gets the words that the entry has.
func lineOf(entry map[string]any, all *[]string) (line []any, wrapped bool) {
	if joined, ok := entry["command"].([]any); ok {
		line = joined
	} else {
		line = []any{entry["command"]}
	}
	switch args := entry["args"].(type) {
	case nil:
	case []any:
		line = append(slices.Clip(line), args...)
	default:
		line = append(slices.Clip(line), args)
	}
	words := make([]string, len(line))
	for i := range line {
		words[i], _ = line[i].(string)
	}
	*all = words
	if len(words) < 3 || path.Base(words[0]) != Program || words[1] != "run" {
		return line, false
	}
	n := 2 + argv.CommandAt(words[2:])
	return line[min(n, len(line)):], n < len(line)
}

// parse decodes a document.
func parse(text []byte, format Format) (doc map[string]any, err error) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if format == TOML {
		err = toml.Unmarshal(text, &doc)
		return doc, err
	}
	if json.Unmarshal(text, &doc) == nil {
		return doc, nil
	}
	root, err := treeOf(text, format)
	if err != nil {
		return nil, err
	}
	doc, _ = root.asAny().(map[string]any)
	return doc, nil
}
