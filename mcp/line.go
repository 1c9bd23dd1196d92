package mcp

import "bytes"

const (
	// maxDepth is how deeply values may be nested: encoding/json has the same bound, and what is beyond is Opaque.
	maxDepth = 10000
	// maxBatch is how many elements of a batch are known; a line with more is Opaque. They are kept until the line has
	// ended, because only then it is known to be JSON.
	maxBatch = 4096
)

// line reads one line in pieces of any size and finds its messages. It checks all of the grammar (RFC 8259) on the way:
// a line that a peer cannot read holds no request.
type line struct {
	step step
	// nest has the bracket of each value that is open.
	nest []byte
	// level is the depth at which the members of a message are: 1, and 2 in a batch.
	level int
	// isKey says that the string being read is a key. member is the member of the message whose value is being read.
	isKey  bool
	member member
	first  byte // of the member's value
	token  token
	head   head
	// offset is where in the line the current chunk began.
	offset int64
	// start is where in the line the message began; isObject says that the element of the batch is an object.
	start    int64
	isObject bool
	elements []element
}

// element is a message of a batch and where in the line it began.
type element struct {
	Message
	start int64
}

func (l *line) reset() {
	*l = line{step: atStart, nest: l.nest[:0], token: token{bytes: l.token.bytes}, head: l.head, elements: l.elements[:0]}
	l.head.reset()
}

// read takes the bytes of p up to the end of the line. ended: p[n] is the newline.
func (l *line) read(p []byte) (n int, ended bool) {
	for n < len(p) {
		switch l.step {
		case inString:
			n += plain(p[n:])
		case inJunk:
			n += junk(p[n:])
		}
		if n = l.run(p, n); n == len(p) {
			break
		}
		if p[n] == '\n' {
			ended = true
			break
		}
		n = l.take(p, n)
	}
	l.token.pause(p[:n])
	l.offset += int64(n)
	return n, ended
}

// junk says how far the newline is.
func junk(p []byte) int {
	if end := bytes.IndexByte(p, '\n'); end >= 0 {
		return end
	}
	return len(p)
}

// run follows the table as far as it goes.
func (l *line) run(p []byte, i int) int {
	s := l.step
	for ; i < len(p); i++ {
		next := moves[s][classOf[p[i]]]
		if next == halt {
			break
		}
		s = next
	}
	l.step = s
	return i
}

// take handles p[i] where the table halts, and says where to continue: at i again if the byte only ended what was before
// it.
func (l *line) take(p []byte, i int) int {
	if l.step.numeric() {
		l.endValue(p, i)
	}
	c := p[i]
	switch l.step {
	case inString:
		return l.takeInString(p, i)
	case atNext:
		l.separate(p, i)
	case atColon:
		l.afterKey(c)
	case atKey, atFirstKey:
		l.beginKey(p, i)
	case atStart, atMember, atValue, atFirst:
		return l.beginValue(p, i)
	case inTru, inFals, inNul:
		l.endLiteral(p, i)
	default:
		l.step = inJunk
	}
	return i + 1
}

// takeInString handles the end of the string, and control characters, which must be escaped. Anything else is plain text
// after an escape, which read skips.
func (l *line) takeInString(p []byte, i int) int {
	switch c := p[i]; {
	case c < ' ':
		l.step = inJunk
		return i
	case c != '"':
		return i
	case !l.isKey:
		l.endValue(p, i+1)
	default:
		l.endKey(p, i+1)
	}
	return i + 1
}

// separate handles what follows a value: a comma, or the end of the array or object around it.
func (l *line) separate(p []byte, i int) {
	switch c := p[i]; {
	case c == ',' && l.in('{'):
		l.step = atKey
	case c == ',' && l.in('['):
		l.step = atValue
	case c == '}' || c == ']':
		l.close(p, i)
	default: // White space has come here when it ended a number.
		if classOf[c] != white {
			l.step = inJunk
		}
	}
}

// in reports whether the innermost open bracket is this one.
func (l *line) in(bracket byte) bool { return len(l.nest) > 0 && l.nest[len(l.nest)-1] == bracket }

// ofMessage reports whether keys and values at this depth are those of a message. An array can be at this depth only as
// an element of a batch.
func (l *line) ofMessage() bool { return len(l.nest) == l.level && l.in('{') }

func (l *line) beginKey(p []byte, i int) {
	switch c := p[i]; {
	case c == '"':
		l.isKey, l.step = true, inString
		if l.ofMessage() {
			l.token.begin(i)
		}
	case c == '}' && l.step == atFirstKey:
		l.close(p, i)
	default:
		l.step = inJunk
	}
}

func (l *line) endKey(p []byte, end int) {
	l.isKey, l.step = false, atColon
	if !l.ofMessage() {
		return
	}
	l.token.end(p, end)
	l.member = memberOther
	if !l.token.over {
		l.member = memberOf(l.token.bytes)
	}
}

func (l *line) afterKey(c byte) {
	switch {
	case c != ':':
		l.step = inJunk
	case l.ofMessage():
		l.step = atMember
	default:
		l.step = atValue
	}
}

// beginValue begins a value that the table cannot begin: a string, an array or object, or the value of a member.
func (l *line) beginValue(p []byte, i int) int {
	c := p[i]
	if l.step == atMember {
		l.first = c
		l.token.bytes = l.token.bytes[:0]
		if l.member == memberID || l.member == memberMethod {
			l.token.begin(i)
		}
	}
	switch {
	case c == '{' || c == '[':
		l.open(c, i)
	case l.step == atStart:
		l.step = inJunk // A lone scalar is JSON, but no message either.
	case c == '"':
		l.step = inString
	case l.step == atMember:
		l.step = atValue // The table knows the rest.
		return i
	case c == ']' && l.step == atFirst:
		l.close(p, i)
	default:
		l.step = inJunk
	}
	return i + 1
}

func (l *line) open(bracket byte, i int) {
	depth := len(l.nest)
	if depth == maxDepth {
		l.step = inJunk
		return
	}
	l.token.on = false
	switch {
	case depth == 0 && bracket == '[':
		l.level = 2
	case depth == 0:
		l.level = 1
	case depth == 1 && l.level == 2 && bracket == '{':
		l.head.reset()
		l.start, l.isObject = l.offset+int64(i), true
	}
	l.nest = append(l.nest, bracket)
	l.step = atFirst
	if bracket == '{' {
		l.step = atFirstKey
	}
}

func (l *line) close(p []byte, i int) {
	opened := byte('{')
	if p[i] == ']' {
		opened = '['
	}
	if !l.in(opened) {
		l.step = inJunk
		return
	}
	l.nest = l.nest[:len(l.nest)-1]
	l.endValue(p, i+1)
}

func (l *line) endLiteral(p []byte, i int) {
	last := byte('e')
	if l.step == inNul {
		last = 'l'
	}
	if p[i] != last {
		l.step = inJunk
		return
	}
	l.endValue(p, i+1)
}

// endValue takes note that a value ended before p[end]. Most values are too deep to matter.
func (l *line) endValue(p []byte, end int) {
	l.step = atNext
	switch depth := len(l.nest); {
	case depth > l.level:
	case l.ofMessage():
		if l.token.on {
			l.token.end(p, end)
		}
		l.head.set(l.member, l.first, &l.token)
	case depth == 1 && l.level == 2:
		l.endElement(end)
	}
}

func (l *line) endElement(end int) {
	if len(l.elements) == maxBatch {
		l.step = inJunk
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

// whole reports whether the line is one JSON value with messages in it.
func (l *line) whole() bool {
	return l.step == atNext && len(l.nest) == 0 && (!l.batch() || len(l.elements) > 0)
}

func (l *line) batch() bool { return l.level == 2 }
