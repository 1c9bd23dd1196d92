package clients

import (
	"bytes"

	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlReader makes a tree of TOML. A table is an object, and a list of tables an array of objects.
type tomlReader struct {
	text   []byte
	bom    int // the length of the byte order mark, from behind which the parser counts
	parser unstable.Parser
}

func parseTOML(text []byte) (node, error) {
	t := tomlReader{text: text, bom: len(text) - len(bytes.TrimPrefix(text, []byte(byteOrderMark)))}
	t.parser.Reset(text[t.bom:])
	root := node{kind: objectKind, lines: true}
	table := &root
	for t.parser.NextExpression() {
		e := t.parser.Expression()
		switch e.Kind {
		case unstable.Table:
			table = root.below(names(e))
		case unstable.ArrayTable:
			all := names(e)
			list := root.below(all[:len(all)-1]).member(all[len(all)-1])
			list.kind, list.items = arrayKind, append(list.items, node{kind: objectKind, lines: true})
			table = &list.items[len(list.items)-1]
		case unstable.KeyValue:
			t.line(table, e)
		}
	}
	return root, t.parser.Error()
}

// names are the parts of a key.
func names(e *unstable.Node) (all []string) {
	for it := e.Key(); it.Next(); {
		all = append(all, string(it.Node().Data))
	}
	return all
}

// member is the value of a member, which is added if it is missing.
func (n *node) member(name string) *node {
	for i := range n.members {
		if n.members[i].name == name {
			return &n.members[i].value
		}
	}
	n.members = append(n.members, member{name: name, value: node{kind: objectKind, lines: n.lines}})
	return &n.members[len(n.members)-1].value
}

// below is the object with these keys; of a list of tables it is in the last one.
func (n *node) below(keys []string) *node {
	for _, k := range keys {
		n = n.member(k)
		if len(n.items) > 0 {
			n = &n.items[len(n.items)-1]
		}
	}
	return n
}

// line reads "key = value" in a table, or in an inline one.
func (t *tomlReader) line(in *node, kv *unstable.Node) {
	var first, last unstable.Range
	for it := kv.Key(); it.Next(); {
		if last = it.Node().Raw; first.Length == 0 {
			first = last
		}
	}
	keys := names(kv)
	m := member{name: keys[len(keys)-1], span: t.span(last)}
	m.keyStart = t.span(first).start
	m.value = t.value(kv.Value())
	if m.value.kind == arrayKind { // the parser says where the whole line ends, but not where an array stands
		m.value.span = span{m.end + bytes.IndexByte(t.text[m.end:], '['), t.span(kv.Raw).end}
	}
	in = in.below(keys[:len(keys)-1])
	in.members = append(in.members, m)
}

func (t *tomlReader) span(r unstable.Range) span {
	return span{int(r.Offset) + t.bom, int(r.Offset+r.Length) + t.bom}
}

// value reads a value. Where an array stands is for line to say.
func (t *tomlReader) value(v *unstable.Node) node {
	n := node{kind: numberKind, span: t.span(v.Raw)}
	switch v.Kind {
	case unstable.String:
		n.kind, n.text = stringKind, string(v.Data)
	case unstable.InlineTable:
		n.kind = objectKind
		for it := v.Children(); it.Next(); {
			t.line(&n, it.Node())
		}
	case unstable.Array:
		n.kind = arrayKind
		for it := v.Children(); it.Next(); {
			n.items = append(n.items, t.value(it.Node()))
		}
	}
	return n
}
