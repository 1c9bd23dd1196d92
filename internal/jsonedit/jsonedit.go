package jsonedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ErrNotObject says that a text, or a value that a path leads through, is not a JSON object.
var ErrNotObject = errors.New("not a JSON object")

// object parses a text that must be one JSON object, as encoding/json reads it, and white space around it.
func object(text []byte) (Node, error) {
	if !json.Valid(text) {
		return Node{}, json.Unmarshal(text, &struct{}{}) // for the error
	}
	root, err := Parse(text)
	if err == nil && root.Kind != Object {
		err = ErrNotObject
	}
	return root, err
}

// Values returns the values at a path as they are written, in order. There are none if there is no such member, and
// several if an object has several members of that name. They are parts of text. An error wraps ErrNotObject or
// ErrTooMuch, or is encoding/json's.
func Values(text []byte, same func(a, b string) bool, path ...string) ([][]byte, error) {
	root, err := object(text)
	if err != nil {
		return nil, err
	}
	var values [][]byte
	for i := range root.Members {
		m := &root.Members[i]
		if !same(m.Name, path[0]) {
			continue
		}
		value := text[m.Value.Start:m.Value.End]
		if len(path) == 1 {
			values = append(values, value)
			continue
		}
		inner, err := Values(value, same, path[1:]...)
		if err != nil {
			return nil, fmt.Errorf("member %q: %w", m.Name, err)
		}
		values = append(values, inner...)
	}
	return values, nil
}

// Set returns a copy of text that has a value, which must be valid JSON, at a path. Of several members of that name the
// last one gets it, since that one counts for most readers, and the others are removed. A missing member is added at the
// end of its object, spaced like its neighbour, together with missing objects on the way to it. An error is as for Values.
func Set(text, value []byte, same func(a, b string) bool, path ...string) ([]byte, error) {
	root, err := object(text)
	if err != nil {
		return nil, err
	}
	var old *Member // the last of that name
	for i := range root.Members {
		if same(root.Members[i].Name, path[0]) {
			old = &root.Members[i]
		}
	}
	if len(path) > 1 {
		inner := []byte("{}")
		if old != nil {
			inner = text[old.Value.Start:old.Value.End]
		}
		if value, err = Set(inner, value, same, path[1:]...); err != nil {
			return nil, fmt.Errorf("member %q: %w", path[0], err)
		}
	}
	name, _ := json.Marshal(path[0]) // a string has no errors
	if old == nil {
		return add(text, &root, name, value), nil
	}
	if old.Name == path[0] {
		name = text[old.Start:old.NameEnd] // as it is written
	}
	var out []byte
	at := 0
	for i := range root.Members {
		m := &root.Members[i]
		if m == old {
			break
		}
		if same(m.Name, path[0]) {
			out = append(out, text[at:m.Start]...)
			at = root.Members[i+1].Start // its comma goes with it; old comes later
		}
	}
	return slices.Concat(out, text[at:old.Start], name, text[old.NameEnd:old.Value.Start], value, text[old.Value.End:]), nil
}

// add returns text with a new member at the end of its object.
func add(text []byte, object *Node, name, value []byte) []byte {
	if len(object.Members) == 0 {
		start := object.Start + 1
		return slices.Concat(text[:start], name, []byte(":"), value, text[start:])
	}
	last := object.Members[len(object.Members)-1]
	space := text[len(bytes.TrimRight(text[:last.Start], whiteSpace)):last.Start]
	colon := text[last.NameEnd:last.Value.Start]
	return slices.Concat(text[:last.Value.End], []byte(","), space, name, colon, value, text[last.Value.End:])
}
