package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// MaxHead is the longest head that is read, in bytes. Clients of an engine send a few hundred.
const MaxHead = 64 << 10

var (
	// ErrHeadTooLong says that a head has more than MaxHead bytes.
	ErrHeadTooLong = errors.New("head is too long")
	// ErrMalformedHead says that a head cannot be understood, or can be understood in more than one way.
	ErrMalformedHead = errors.New("malformed head")
)

// ReadHead reads up to the blank line that ends a head and returns the bytes unchanged, the blank line included. With an
// error it returns what it has read so far. io.EOF means that nothing was there, io.ErrUnexpectedEOF that the head is
// cut off.
func ReadHead(br *bufio.Reader) ([]byte, error) {
	var head []byte
	for start := 0; ; { // of the current line
		part, err := br.ReadSlice('\n')
		head = append(head, part...)
		switch {
		case len(head) > MaxHead:
			return head, ErrHeadTooLong
		case errors.Is(err, io.EOF) && len(head) > 0:
			return head, io.ErrUnexpectedEOF
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return head, err
		case err == nil && isBlank(string(head[start:])):
			return head, nil
		case err == nil:
			start = len(head)
		}
	}
}

func isBlank(line string) bool { return line == "\r\n" || line == "\n" }

// framing is what a head says about the length of its body.
type framing struct {
	ContentLength int64 // in bytes; -1 when there is no such field
	Chunked       bool  // outranks ContentLength
}

// Request is what is to be known of a request's head.
type Request struct {
	framing
	Method, Target string
	Continue       bool // the client waits for 100 Continue before it sends the body
	Upgrade        bool // the connection may become a stream; never with HTTP/1.0
}

// Response is what is to be known of a response's head.
type Response struct {
	framing
	Status int
}

// ParseRequest parses the head of a request. Every error wraps ErrMalformedHead.
func ParseRequest(head []byte) (Request, error) {
	r := Request{framing: framing{ContentLength: -1}}
	line, fields := firstLine(head)
	method, rest, ok := strings.Cut(line, " ")
	target, proto, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 || !isToken(method) || target == "" || !isText(target) || proto != "HTTP/1.1" && proto != "HTTP/1.0" {
		return r, fmt.Errorf("%w: request line %.80q", ErrMalformedHead, line)
	}
	r.Method, r.Target = method, target
	err := eachField(fields, func(name, value string) error {
		switch {
		case strings.EqualFold(name, "Expect"):
			r.Continue = strings.EqualFold(value, "100-continue")
		case strings.EqualFold(name, "Upgrade"):
			r.Upgrade = proto == "HTTP/1.1"
		}
		return r.setLength(name, value)
	})
	return r, err
}

// ParseResponse parses the head of a response. Every error wraps ErrMalformedHead.
func ParseResponse(head []byte) (Response, error) {
	r := Response{framing: framing{ContentLength: -1}}
	line, fields := firstLine(head)
	proto, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || status < 100 || proto != "HTTP/1.1" && proto != "HTTP/1.0" {
		return r, fmt.Errorf("%w: status line %.80q", ErrMalformedHead, line)
	}
	r.Status = int(status)
	err = eachField(fields, r.setLength)
	return r, err
}

// setLength takes a field that gives the length of the body. Several Content-Lengths must be the same, and chunked is
// the only Transfer-Encoding that is understood.
func (f *framing) setLength(name, value string) error {
	switch {
	case strings.EqualFold(name, "Transfer-Encoding"):
		if !strings.EqualFold(value, "chunked") {
			return fmt.Errorf("%w: transfer encoding %.80q", ErrMalformedHead, value)
		}
		f.Chunked = true
	case strings.EqualFold(name, "Content-Length"):
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil || f.ContentLength >= 0 && f.ContentLength != int64(n) {
			return fmt.Errorf("%w: content length %.80q", ErrMalformedHead, value)
		}
		f.ContentLength = int64(n)
	}
	return nil
}

// Edit returns a request's head without the fields of the given names, and with more fields at its end.
func Edit(head []byte, drop []string, add ...string) []byte {
	line, fields := firstLine(head)
	out := append(make([]byte, 0, len(head)+64), line+"\r\n"...)
	for field := range strings.Lines(fields) {
		name, _, _ := strings.Cut(field, ":")
		if !isBlank(field) && !slices.ContainsFunc(drop, func(n string) bool { return strings.EqualFold(n, name) }) {
			out = append(out, field...)
		}
	}
	for _, field := range add {
		out = append(out, field+"\r\n"...)
	}
	return append(out, "\r\n"...)
}

// firstLine splits a head into its first line and the rest. The head is copied once, here.
func firstLine(head []byte) (line, fields string) {
	line, fields, _ = strings.Cut(string(head), "\n")
	return strings.TrimSuffix(line, "\r"), fields
}

// eachField calls see for each field of a head, up to the blank line.
func eachField(fields string, see func(name, value string) error) error {
	for fields != "" {
		var line string
		line, fields, _ = strings.Cut(fields, "\n")
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			return nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) || !isText(value) {
			return fmt.Errorf("%w: field %.80q", ErrMalformedHead, line)
		}
		if err := see(name, strings.Trim(value, " \t")); err != nil {
			return err
		}
	}
	return nil
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2: no space, no control character, no separator.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// isText reports whether s has no control character but tabs: no line end in disguise.
func isText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
