package mcp

import (
	"bytes"
	"errors"
	"fmt"
)

const (
	// DefaultMax is Scanner.Max where it is 0, in bytes.
	DefaultMax = 64 << 20
	// DefaultKeep is Scanner.Keep where it is 0, in bytes.
	DefaultKeep = 256 << 10
	// heldMax is the largest buffer that is kept after a line that did not need it.
	heldMax = 16 << 10
)

// ErrTooLong is the error of a line with more than Scanner.Max bytes.
var ErrTooLong = errors.New("message too long")

// Scanner splits a stream of newline-delimited JSON-RPC into messages. It reads along while the relay passes the bytes
// on. It finds id and method anywhere in a message of any size, and remembers at most Keep bytes of it. Not for
// concurrent use; each direction has its own.
type Scanner struct {
	// Max is how many bytes a line may have, without its newline; 0 means DefaultMax.
	Max int64
	// Keep is the size up to which a line is given as Message.Raw; 0 means DefaultKeep.
	Keep int

	line line
	// held is the part of the line that came in earlier chunks, unless the line is too large to be kept.
	held []byte
	err  error
}

// Feed takes the next bytes of the stream and calls emit for each message that ends in them. Lines of white space are no
// messages. The error is ErrTooLong: what came before the long line was emitted, and the scanner takes no more.
func (s *Scanner) Feed(chunk []byte, emit func(Message)) error {
	for len(chunk) > 0 && s.err == nil {
		if s.line.step == betweenLines { // The zero value, and after each line.
			s.line.reset()
		}
		part, rest, ended := bytes.Cut(chunk, []byte{'\n'})
		if s.err = s.tooLong(len(part)); s.err != nil {
			break
		}
		s.line.read(part)
		if !ended {
			s.hold(part)
			break
		}
		s.finish(part, emit)
		chunk = rest
	}
	return s.err
}

// Line takes a whole line, without its newline, and calls emit for each message in it. Raw is given whatever the size. It is
// not for a scanner that is fed a stream.
func (s *Scanner) Line(line []byte, emit func(Message)) {
	s.line.reset()
	s.line.read(line)
	s.emit(line, s.line.offset, emit)
	s.line.step = betweenLines
}

// IsStray reports whether no receiver takes a line for a message, white space included. If the line has not ended, its first byte
// decides. A byte order mark, which some receivers pass over, does not. It is not for a scanner that is fed a stream.
func (s *Scanner) IsStray(line []byte, ended bool) bool {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	stray := true
	if ended {
		s.Line(line, func(m Message) { stray = stray && m.Kind == Opaque })
		return stray
	}
	line = bytes.TrimLeft(line, " \t\r")
	return len(line) > 0 && line[0] != '{' && line[0] != '['
}

// Partial reports whether the stream is in the middle of a line.
func (s *Scanner) Partial() bool { return s.line.step != betweenLines && s.line.offset > 0 }

// Shrink gives back memory that only large lines need, unless the stream is in the middle of one.
func (s *Scanner) Shrink() {
	if !s.Partial() {
		s.held, s.line = nil, line{}
	}
}

// tooLong is the error of a line that goes on for more bytes than are allowed.
func (s *Scanner) tooLong(more int) error {
	limit := s.Max
	if limit == 0 {
		limit = DefaultMax
	}
	if s.line.offset+int64(more) <= limit {
		return nil
	}
	return fmt.Errorf("%w: at least %d bytes, and %d are allowed", ErrTooLong, s.line.offset+int64(more), limit)
}

func (s *Scanner) keep() int64 {
	if s.Keep == 0 {
		return DefaultKeep
	}
	return int64(s.Keep)
}

// hold keeps the chunk's part of a line that continues in the next chunk.
func (s *Scanner) hold(part []byte) {
	if s.line.offset > s.keep() {
		s.held = s.held[:0]
		return
	}
	s.held = append(s.held, part...)
}

// finish emits the messages of the line whose last part is given.
func (s *Scanner) finish(part []byte, emit func(Message)) {
	size := s.line.offset
	raw := part
	switch {
	case size > s.keep():
		raw = nil
	case len(s.held) > 0:
		s.held = append(s.held, part...)
		raw = s.held
	}
	s.emit(raw, size, emit)
	s.line.step = betweenLines
	s.held = s.held[:0]
	if cap(s.held) > heldMax && size <= heldMax {
		s.held = nil
	}
}

func (s *Scanner) emit(raw []byte, size int64, emit func(Message)) {
	l := &s.line
	switch {
	case l.blank():
	case l.unclear():
		emit(Message{Kind: Unclear, Line: true, Size: size, Raw: raw})
	case !l.whole():
		emit(Message{Line: true, Size: size, Raw: raw})
	case l.batch():
		for _, e := range l.elements {
			if raw != nil && e.Size > 0 {
				e.Raw = raw[e.start : e.start+e.Size : e.start+e.Size]
			}
			emit(e.Message)
		}
	default:
		m := l.head.message()
		m.Line, m.Size, m.Raw = true, size, raw
		emit(m)
	}
}
