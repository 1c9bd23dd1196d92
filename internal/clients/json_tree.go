package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mcp-tether/internal/proc"
)

// whiteSpace is what JSON allows between its tokens.
const whiteSpace = " \t\r\n"

// maxDepth bounds values within values.
const maxDepth = 1000

// Why a text is refused.
var (
	errSyntax  = errors.New("syntax error")
	errTooMuch = errors.New("too many values")
)

// parseJSON reads JSON, also with comments, trailing commas, single quotes and bare names, as clients write it of JSON5
// (spec.json5.org). An error names the line.
func parseJSON(text []byte) (node, error) {
	p := parser{text: text}
	p.at = len(text) - len(bytes.TrimPrefix(text, []byte(byteOrderMark)))
	root, err := p.value(0)
	if err == nil {
		err = p.space()
	}
	if err == nil && p.at < len(text) {
		err = p.fail("more after the end")
	}
	return root, err
}

// parser reads one text from at on.
type parser struct {
	text   []byte
	at     int
	values int
}

func (p *parser) fail(what string) error {
	at := min(p.at, len(p.text))
	return fmt.Errorf("line %d: %w: %s", 1+bytes.Count(p.text[:at], []byte("\n")), errSyntax, what)
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
func (p *parser) value(depth int) (node, error) {
	if err := p.space(); err != nil {
		return node{}, err
	}
	if p.values++; p.values > proc.MaxValues || depth > maxDepth {
		return node{}, errTooMuch
	}
	n := node{span: span{start: p.at}}
	var err error
	switch p.peek() {
	case '{':
		n.kind = objectKind
		n.members, err = p.members(depth)
	case '[':
		n.kind = arrayKind
		n.items, err = p.items(depth)
	case '"', '\'':
		n.kind = stringKind
		n.text, err = p.quoted()
	default:
		n.text = p.bare()
		n.kind, err = p.bareKind(n.text)
	}
	n.end = p.at
	return n, err
}

// members reads an object.
func (p *parser) members(depth int) ([]member, error) {
	var all []member
	err := p.list('}', func() error {
		m := member{span: span{start: p.at}, keyStart: p.at}
		var err error
		if c := p.peek(); c == '"' || c == '\'' {
			m.name, err = p.quoted()
		} else if m.name = p.bare(); m.name == "" {
			err = p.fail("a name is missing")
		}
		if err != nil {
			return err
		}
		m.end = p.at
		if err := p.space(); err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.fail("a colon is missing")
		}
		p.at++
		m.value, err = p.value(depth + 1)
		all = append(all, m)
		return err
	})
	return all, err
}

// items reads an array.
func (p *parser) items(depth int) ([]node, error) {
	var all []node
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
func (p *parser) bareKind(spelled string) (kind, error) {
	switch spelled {
	case "true", "false", "null":
		return wordKind, nil
	case "":
		return wordKind, p.fail("a value is missing")
	}
	if _, err := strconv.ParseFloat(spelled, 64); strings.IndexByte("-0123456789", spelled[0]) >= 0 && (err == nil || errors.Is(err, strconv.ErrRange)) {
		return numberKind, nil
	}
	return wordKind, p.fail(fmt.Sprintf("%.40q is no value", spelled))
}

// quoted reads a string in quotes of either kind. What JSON has no escape for is refused.
func (p *parser) quoted() (string, error) {
	start, quote := p.at, p.text[p.at]
	inJSON := []byte{'"'}
	for p.at++; p.at < len(p.text) && p.text[p.at] != quote; p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			inJSON = append(inJSON, '\\', c)
		case c == '\\' && bytes.HasPrefix(p.text[p.at:], []byte(`\'`)):
			p.at++
			inJSON = append(inJSON, '\'')
		case c == '\\' && p.at+1 < len(p.text):
			p.at++
			inJSON = append(inJSON, c, p.text[p.at])
		default:
			inJSON = append(inJSON, c)
		}
	}
	if p.at >= len(p.text) {
		return "", p.fail("a string without an end")
	}
	p.at++
	var out string
	if json.Unmarshal(append(inJSON, '"'), &out) != nil {
		p.at = start
		return "", p.fail("a string that is none in JSON")
	}
	return out, nil
}
