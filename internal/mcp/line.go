package mcp

import (
	"bytes"
	"slices"
)

// maxBatch is how many elements of a batch are kept; a line with more is Unclear. They are kept until the line ends,
// because only then is it known to be whole.
const maxBatch = 4096

// line reads one line in pieces of any size and finds its messages. It knows the grammar of JSON (RFC 8259) down to the
// members of a message. Inside a member it follows brackets and quotes alone. Parsers differ in what they take there
// (Python writes and reads NaN), and a relay need not know whether they can read it.
type line struct {
	step step
	// depth is how many brackets are open. level is the depth at which the members of a message are: 1, and 2 in a batch.
	depth, level int
	// base is the depth around the nested value that is being passed over.
	base int
	// first says that only the opening bracket came before. escaped says that a backslash escapes the string's next byte.
	first, escaped bool
	// member is the member of the message whose value is being read, and opening the first byte of the value.
	member  member
	opening byte
	token   token
	head    head
	// offset is where in the line the current chunk began.
	offset int64
	// start is where in the line the message began; isObject says that the element of the batch is an object.
	start    int64
	isObject bool
	elements []element
	// tooMany says that the batch has more than maxBatch elements.
	tooMany bool
}

// element is a message of a batch and where in the line it began.
type element struct {
	Message
	start int64
}

// step says how far a line has been read.
type step uint8

const (
	// betweenLines: no line has begun.
	betweenLines step = iota
	// atStart: nothing but white space so far.
	atStart
	// atKey: a key must come, or the end of an object that was just opened.
	atKey
	inKey
	atColon
	// atValue: the value of a member must come.
	atValue
	// atElement: an element of the batch must come, or the end of a batch that was just opened.
	atElement
	// inText and inScalar: in a value of the message, or an element of a batch.
	inText
	inScalar
	// inNestedValue: in an array or object that is such a value; inNestedText: in a string of it.
	inNestedValue
	inNestedText
	// atNext: after such a value.
	atNext
	// atEnd: after the value of the line.
	atEnd
	// inNoise: the line is no array or object, or it is no JSON and no message has begun in it. So no receiver takes it for a
	// message.
	inNoise
	// inOdd: the line is not read any further.
	inOdd
)

func (l *line) reset() {
	*l = line{step: atStart, token: token{bytes: l.token.bytes}, head: l.head, elements: l.elements[:0]}
	l.head.reset()
}

// read takes more bytes of the line, none of which is its newline.
func (l *line) read(p []byte) {
	for i := 0; i < len(p); {
		switch l.step {
		case inText, inKey:
			i = l.inString(p, i)
		case inNestedValue, inNestedText:
			i = l.inNested(p, i)
		case inScalar:
			i = l.inBareValue(p, i)
		case inNoise, inOdd:
			i = len(p)
		default:
			if !white(p[i]) {
				l.take(p, i)
			}
			i++
		}
	}
	l.token.pause(p)
	l.offset += int64(len(p))
}

func white(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// inString goes on to the end of a string. A quote ends it unless an odd number of backslashes stands before it.
func (l *line) inString(p []byte, i int) int {
	if l.escaped {
		l.escaped = false
		i++
	}
	for from := i; ; {
		n := bytes.IndexByte(p[i:], '"')
		if n < 0 {
			l.escaped = oddBackslashes(p[from:])
			return len(p)
		}
		if i += n + 1; !oddBackslashes(p[from : i-1]) {
			break
		}
	}
	switch l.step {
	case inKey:
		l.endKey(p, i)
	case inText:
		l.endValue(p, i)
	default:
		l.step = inNestedValue
	}
	return i
}

func oddBackslashes(p []byte) bool {
	n := len(p)
	for n > 0 && p[n-1] == '\\' {
		n--
	}
	return (len(p)-n)%2 == 1
}

// inBareValue goes on to the end of a number or a word.
func (l *line) inBareValue(p []byte, i int) int {
	for ; i < len(p); i++ {
		if c := p[i]; c == ',' || c == '}' || c == ']' || white(c) {
			l.endValue(p, i)
			break
		}
	}
	return i
}

// take takes p[i], which is no white space, between values.
func (l *line) take(p []byte, i int) {
	c := p[i]
	first := l.first
	l.first = false
	switch {
	case l.step == atStart && c == '{':
		l.level = 1
		l.open(i)
	case l.step == atStart && c == '[':
		l.level, l.depth, l.step, l.first = 2, 1, atElement, true
	case l.step == atStart:
		l.step = inNoise
	case l.step == atKey && c == '"':
		l.step = inKey
		l.token.begin(i)
	case l.step == atColon && c == ':':
		l.step = atValue
	case l.step == atElement && c == '{':
		l.open(i)
	case l.step == atValue, l.step == atElement && c != ']':
		l.beginValue(c, i)
	case l.step == atNext && c == ',' && l.inMessage():
		l.step = atKey
	case l.step == atNext && c == ',':
		l.step = atElement
	case (l.step == atNext || first) && l.closes(c):
		l.close(i)
	case first && l.step == atKey && l.level == 1 && c != '\'', l.level == 2 && !l.hasMessage():
		l.step = inNoise // "{debug} ready", "[INFO] listening"
	default:
		l.step = inOdd
	}
}

// hasMessage reports whether an element of the batch that was read so far may be a message.
func (l *line) hasMessage() bool {
	return l.isObject || slices.ContainsFunc(l.elements, func(e element) bool { return e.Size > 0 })
}

// inMessage reports whether the members of a message are at this depth, and not the elements of a batch.
func (l *line) inMessage() bool { return l.depth == l.level }

func (l *line) closes(c byte) bool {
	if l.inMessage() {
		return c == '}'
	}
	return c == ']'
}

// open begins a message.
func (l *line) open(i int) {
	l.head.reset()
	l.isObject, l.start = true, 0
	if l.level == 2 {
		l.start = l.offset + int64(i)
	}
	l.depth++
	l.step, l.first = atKey, true
}

// close ends a message or a batch.
func (l *line) close(i int) {
	message := l.inMessage()
	l.depth--
	switch {
	case l.depth == 0:
		l.step = atEnd
	case message:
		l.endElement(i + 1)
	}
}

func (l *line) endKey(p []byte, end int) {
	l.step = atColon
	l.token.end(p, end)
	l.member = memberOther
	if !l.token.over {
		l.member = memberOf(l.token.bytes)
	}
}

// beginValue begins the value of a member, or an element of a batch that is no message.
func (l *line) beginValue(c byte, i int) {
	l.opening, l.base = c, l.depth
	l.token.bytes = l.token.bytes[:0]
	switch c {
	case '{', '[':
		l.depth++
		l.step = inNestedValue
		return
	case '"':
		l.step = inText
	case ',', ':', '}', ']':
		if l.step = inOdd; !l.inMessage() && !l.hasMessage() {
			l.step = inNoise
		}
		return
	default:
		l.step = inScalar
	}
	if l.inMessage() && (l.member == memberID || l.member == memberMethod) {
		l.token.begin(i)
		l.head.from = l.offset + int64(i) - l.start
	}
}

// endValue takes note that a value ended before p[end].
func (l *line) endValue(p []byte, end int) {
	l.step = atNext
	if !l.inMessage() {
		l.endElement(end)
		return
	}
	if l.token.on {
		l.token.end(p, end)
	}
	l.head.set(l.member, l.opening, &l.token, l.offset+int64(end)-l.start)
}

func (l *line) endElement(end int) {
	l.step = atNext
	if len(l.elements) == maxBatch {
		l.tooMany = true
		return
	}
	var e element
	if l.isObject {
		e.Message, e.start = l.head.message(), l.start
		e.Size = l.offset + int64(end) - l.start
	}
	l.isObject = false
	l.elements = append(l.elements, e)
}

// blank reports whether the line is white space only.
func (l *line) blank() bool { return l.step == atStart }

// unclear reports whether the line may be a message to some parser, though not to this one. No parser takes a line that
// ends in the middle of a value for a message.
func (l *line) unclear() bool { return l.step == inOdd || l.step == atEnd && l.tooMany }

// whole reports whether the line is one JSON value with messages in it.
func (l *line) whole() bool { return l.step == atEnd && (!l.batch() || len(l.elements) > 0) }

func (l *line) batch() bool { return l.level == 2 }
