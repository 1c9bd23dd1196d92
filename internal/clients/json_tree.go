package clients

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"mcp-tether/internal/proc"
)

// ErrNotObject says that a text is not a JSON object.
var ErrNotObject = errors.New("not a JSON object")

// whiteSpace is what JSON allows between its tokens.
const whiteSpace = " \t\r\n"

// Node is a value as it stands in a text: text[Start:End].
type Node struct {
	Kind       Kind
	Start, End int
	// Text is the decoded text of a string, and the spelling of a number or a word.
	Text string
	// Members are those of an object and Items those of an array, in the order of the text.
	Members []Member
	Items   []Node
}

// Member is a member of an object. Its name stands at text[Start:NameEnd], quotes included.
type Member struct {
	Name           string
	Start, NameEnd int
	Value          Node
}

// Kind is the kind of a value.
type Kind uint8

// The kinds. A word is true, false or null.
const (
	Object Kind = iota
	Array
	String
	Number
	Word
)

// maxDepth bounds values within values, in a text that Parse reads.
const maxDepth = 1000

// Why Parse refuses a text.
var (
	ErrSyntax  = errors.New("syntax error")
	ErrTooMuch = errors.New("too many values")
)

// Parse reads JSON, also with comments, trailing commas, single quotes and bare names, as clients write it of JSON5 (spec.json5.org). It
// says where each value stands. An error names the line and wraps ErrSyntax or ErrTooMuch.
func Parse(text []byte) (Node, error) {
	p := parser{text: text}
	p.at = len(text) - len(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	root, err := p.value(0)
	if err == nil {
		err = p.space()
	}
	if err == nil && p.at < len(text) {
		err = p.fail("more after the end")
	}
	return root, err
}

// Any converts a value as encoding/json does for an interface.
func (n *Node) Any() any {
	switch n.Kind {
	case Object:
		m := make(map[string]any, len(n.Members))
		for i := range n.Members {
			m[n.Members[i].Name] = n.Members[i].Value.Any()
		}
		return m
	case Array:
		list := make([]any, len(n.Items))
		for i := range n.Items {
			list[i] = n.Items[i].Any()
		}
		return list
	case Number:
		f, _ := strconv.ParseFloat(n.Text, 64) // Out of range it is infinite: no caller calculates with it.
		return f
	case Word:
		if n.Text == "null" {
			return nil
		}
		return n.Text == "true"
	}
	return n.Text
}

// parser reads one text from at on.
type parser struct {
	text   []byte
	at     int
	values int
}

func (p *parser) fail(what string) error {
	at := min(p.at, len(p.text))
	return fmt.Errorf("line %d: %w: %s", 1+bytes.Count(p.text[:at], []byte("\n")), ErrSyntax, what)
}

// peek is the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// space passes over white space and comments.
func (p *parser) space() error {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case bytes.IndexByte([]byte(whiteSpace), rest[0]) >= 0:
			p.at++
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			p.at += end
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return p.fail("a comment without an end")
			}
			p.at += 2 + end + 2
		default:
			return nil
		}
	}
	return nil
}

// value reads one value and the space before it.
func (p *parser) value(depth int) (Node, error) {
	if err := p.space(); err != nil {
		return Node{}, err
	}
	if p.values++; p.values > proc.MaxValues || depth > maxDepth {
		return Node{}, ErrTooMuch
	}
	n := Node{Start: p.at}
	var err error
	switch p.peek() {
	case '{':
		n.Kind = Object
		n.Members, err = p.members(depth)
	case '[':
		n.Kind = Array
		n.Items, err = p.items(depth)
	case '"', '\'':
		n.Kind = String
		n.Text, err = p.quoted()
	default:
		n.Text = p.bare()
		n.Kind, err = p.bareKind(n.Text)
	}
	n.End = p.at
	return n, err
}

// members reads an object.
func (p *parser) members(depth int) ([]Member, error) {
	var all []Member
	err := p.list('}', func() error {
		m := Member{Start: p.at}
		var err error
		if c := p.peek(); c == '"' || c == '\'' {
			m.Name, err = p.quoted()
		} else if m.Name = p.bare(); m.Name == "" {
			err = p.fail("a name is missing")
		}
		if err != nil {
			return err
		}
		m.NameEnd = p.at
		if err := p.space(); err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.fail("a colon is missing")
		}
		p.at++
		m.Value, err = p.value(depth + 1)
		all = append(all, m)
		return err
	})
	return all, err
}

// items reads an array.
func (p *parser) items(depth int) ([]Node, error) {
	var all []Node
	err := p.list(']', func() error {
		n, err := p.value(depth + 1)
		all = append(all, n)
		return err
	})
	return all, err
}

// list reads what stands between two brackets, separated by commas. There may be a comma after the last.
func (p *parser) list(closing byte, one func() error) error {
	p.at++
	for {
		if err := p.space(); err != nil {
			return err
		}
		if p.peek() == closing {
			p.at++
			return nil
		}
		if err := one(); err != nil {
			return err
		}
		if err := p.space(); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.at++
		case closing:
		default:
			return p.fail("a comma is missing")
		}
	}
}

// bare reads a word without quotes.
func (p *parser) bare() string {
	start := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		if c < utf8.RuneSelf && !strings.ContainsRune("+-.$_", rune(c)) && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') {
			break
		}
		p.at++
	}
	return string(p.text[start:p.at])
}

// bareKind separates numbers from words.
func (p *parser) bareKind(word string) (Kind, error) {
	switch word {
	case "true", "false", "null":
		return Word, nil
	case "":
		return Word, p.fail("a value is missing")
	}
	if _, err := strconv.ParseFloat(word, 64); strings.IndexByte("-0123456789", word[0]) >= 0 && (err == nil || errors.Is(err, strconv.ErrRange)) {
		return Number, nil
	}
	return Word, p.fail(fmt.Sprintf("%.40q is no value", word))
}

// quoted reads a string in quotes of either kind.
func (p *parser) quoted() (string, error) {
	quote := p.text[p.at]
	var out []byte
	for p.at++; p.at < len(p.text); {
		switch c := p.text[p.at]; {
		case c == quote:
			p.at++
			return string(out), nil
		case c == '\n':
			return "", p.fail("a string without an end")
		case c == '\\':
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
		default:
			out = append(out, c)
			p.at++
		}
	}
	return "", p.fail("a string without an end")
}

// escapes are what stands for another character after a backslash, each before that.
const escapes = "b\bf\fn\nr\rt\t\"\"''\\\\//"

// escape reads what begins with a backslash.
func (p *parser) escape(out []byte) ([]byte, error) {
	if p.at++; p.at == len(p.text) {
		return nil, p.fail("a string without an end")
	}
	c := p.text[p.at]
	p.at++
	if c == 'u' {
		r, err := p.hex(4)
		if err == nil && utf16.IsSurrogate(r) && bytes.HasPrefix(p.text[p.at:], []byte(`\u`)) {
			before := p.at
			p.at += 2
			low, lowErr := p.hex(4)
			if pair := utf16.DecodeRune(r, low); lowErr == nil && pair != utf8.RuneError {
				r = pair
			} else {
				p.at = before
			}
		}
		return utf8.AppendRune(out, r), err
	}
	if i := strings.IndexByte(escapes, c); i >= 0 && i%2 == 0 {
		return append(out, escapes[i+1]), nil
	}
	return nil, p.fail("an escape that is not known")
}

// hex reads a number of n hexadecimal digits.
func (p *parser) hex(n int) (rune, error) {
	if p.at+n > len(p.text) {
		return 0, p.fail("an escape without an end")
	}
	v, err := strconv.ParseUint(string(p.text[p.at:p.at+n]), 16, 32)
	if err != nil {
		return 0, p.fail("an escape that is no number")
	}
	p.at += n
	return rune(v), nil
}
