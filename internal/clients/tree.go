package clients

import (
	"errors"
	"strconv"
)

// errNotObject says that a text is no object.
var errNotObject = errors.New("not a JSON object")

// byteOrderMark is what some editors write in front of a text.
const byteOrderMark = "\ufeff"

// span is a place in a text: text[start:end].
type span struct{ start, end int }

// node is a value as it stands in a text.
type node struct {
	kind kind
	span
	// text is what a string means, and the spelling of a number or a word.
	text string
	// members are those of an object and items those of an array, in the order of the text.
	members []member
	items   []node
	// lines says that each member has a line of its own, as in a table of TOML.
	lines bool
}

// member is a member of an object. Its name stands at its place, quotes included, and behind other names in a dotted key.
type member struct {
	name string
	span
	keyStart int
	value    node
}

// kind is the kind of a value.
type kind uint8

// The kinds. A word is true, false or null; TOML's other values are numbers here.
const (
	objectKind kind = iota
	arrayKind
	stringKind
	numberKind
	wordKind
)

// asAny converts a value as encoding/json does for an interface.
func (n *node) asAny() any {
	switch n.kind {
	case objectKind:
		m := make(map[string]any, len(n.members))
		for i := range n.members {
			m[n.members[i].name] = n.members[i].value.asAny()
		}
		return m
	case arrayKind:
		list := make([]any, len(n.items))
		for i := range n.items {
			list[i] = n.items[i].asAny()
		}
		return list
	case numberKind:
		f, _ := strconv.ParseFloat(n.text, 64) // Out of range it is infinite: no caller calculates with it.
		return f
	case wordKind:
		if n.text == "null" {
			return nil
		}
		return n.text == "true"
	}
	return n.text
}
