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

// Values returns the values at a path as they are written, in order. There are none if there is no such member, and
// several if an object has several members of that name. They are parts of text. An error wraps ErrNotObject or is
// encoding/json's.
func Values(text []byte, same func(a, b string) bool, path ...string) ([][]byte, error) {
	if err := checkObject(text); err != nil {
		return nil, err
	}
	var values [][]byte
	for m := range members(text) {
		if !same(m.name, path[0]) {
			continue
		}
		value := text[m.value:m.end]
		if len(path) == 1 {
			values = append(values, value)
			continue
		}
		inner, err := Values(value, same, path[1:]...)
		if err != nil {
			return nil, fmt.Errorf("member %q: %w", m.name, err)
		}
		values = append(values, inner...)
	}
	return values, nil
}

// Set returns a copy of text that has a value, which must be valid JSON, at a path. Of several members of that name the
// last one gets it, since that one counts for most readers, and the others are removed. A missing member is added at the
// end of its object, spaced like its neighbour, together with missing objects on the way to it. An error is as for Values.
func Set(text, value []byte, same func(a, b string) bool, path ...string) ([]byte, error) {
	if err := checkObject(text); err != nil {
		return nil, err
	}
	var last, old member // of all, and of that name; one without an end is missing
	for m := range members(text) {
		last = m
		if same(m.name, path[0]) {
			old = m
		}
	}
	if len(path) > 1 {
		inner := []byte("{}")
		if old.end > 0 {
			inner = text[old.value:old.end]
		}
		var err error
		if value, err = Set(inner, value, same, path[1:]...); err != nil {
			return nil, fmt.Errorf("member %q: %w", path[0], err)
		}
	}
	name, _ := json.Marshal(path[0]) // a string has no errors
	switch {
	case last.end == 0:
		start := bytes.IndexByte(text, '{') + 1
		return slices.Concat(text[:start], name, []byte(":"), value, text[start:]), nil
	case old.end == 0:
		space := text[len(bytes.TrimRight(text[:last.start], whiteSpace)):last.start]
		colon := text[last.nameEnd:last.value]
		return slices.Concat(text[:last.end], []byte(","), space, name, colon, value, text[last.end:]), nil
	case old.name == path[0]:
		name = text[old.start:old.nameEnd] // as it is written
	}
	kept := without(text, same, path[0], old.start)
	return slices.Concat(kept, name, text[old.nameEnd:old.value], value, text[old.end:]), nil
}

// without returns text up to end, which is the start of a member, and leaves out the members of a name.
func without(text []byte, same func(a, b string) bool, name string, end int) []byte {
	var out []byte
	start, removing := 0, false
	for m := range members(text) {
		if removing {
			start = m.start // the comma went with the member before
		}
		if m.start == end {
			break
		}
		if removing = same(m.name, name); removing {
			out = append(out, text[start:m.start]...)
		}
	}
	return append(out, text[start:end]...)
}
