package container

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// HTTP/1.1 heads, read and judged as the engines do: they are all written in Go, so net/http is the reference. Where it is
// lenient and nobody needs it (folded lines, a transfer encoding under HTTP/1.0), this is strict: a request that two
// readers may understand differently is a way past the labels.

// headLimit is the longest head that is read, in bytes; net/http allows the same.
const headLimit = 1 << 20

var (
	errHeadTooLong   = errors.New("head is too long")
	errMalformedHead = errors.New("malformed head")
)

// readHead reads up to the blank line that ends a head and returns the bytes as they are, blank line and all. With an
// error it returns what it has read so far. io.EOF means that nothing was there, io.ErrUnexpectedEOF that the head is
// cut off. Blank lines in front are taken along: net/http allows for them after a POST.
func readHead(br *bufio.Reader, limit int) ([]byte, error) {
	var head []byte
	for {
		line, err := br.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case len(head) > limit:
			return head, errHeadTooLong
		case errors.Is(err, io.EOF) && len(head) > 0:
			return head, io.ErrUnexpectedEOF
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return head, err
		case err == nil && headEnds(head):
			return head, nil
		}
	}
}

// headEnds tells whether the last line is blank, and not all of them.
func headEnds(head []byte) bool {
	blank := bytes.HasSuffix(head, []byte("\n\r\n")) || bytes.HasSuffix(head, []byte("\n\n"))
	return blank && len(bytes.TrimLeft(head, "\r\n")) > 0
}

// framing says where the body after a head ends.
type framing struct {
	contentLength int64 // -1: none given
	chunked       bool  // outranks contentLength
}

// request is what matters of a request's head.
type request struct {
	framing
	method, target string
	encoding       string // Content-Encoding; "" for none
	expects        bool   // a client that waits for 100 Continue before it sends the body
	upgrade        bool   // a client that would like another protocol
}

// response is what matters of a response's head.
type response struct {
	framing
	status int
}

// bodiless tells whether a response has no body, whatever its head says.
func (r response) bodiless() bool {
	return r.status < 200 || r.status == 204 || r.status == 304
}

// success tells whether the engine did what it was asked to do.
func (r response) success() bool { return r.status >= 200 && r.status < 300 }

// parseRequest understands the head of a request. Every error wraps errMalformedHead.
func parseRequest(head []byte) (request, error) {
	r := request{framing: framing{contentLength: -1}}
	line, fields := firstLine(head)
	method, rest, ok := strings.Cut(line, " ")
	target, proto, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 || !isToken(method) || proto != "HTTP/1.1" && proto != "HTTP/1.0" {
		return r, fmt.Errorf("%w: request line %.80q", errMalformedHead, line)
	}
	r.method, r.target = method, target
	err := eachField(fields, func(name, value string) error {
		switch {
		case strings.EqualFold(name, "Transfer-Encoding"):
			if proto != "HTTP/1.1" || r.chunked || !strings.EqualFold(value, "chunked") {
				return fmt.Errorf("%w: transfer encoding %.80q", errMalformedHead, value)
			}
			r.chunked = true
		case strings.EqualFold(name, "Content-Length"):
			return r.setLength(value)
		case strings.EqualFold(name, "Content-Encoding") && !strings.EqualFold(value, "identity"):
			r.encoding = value
		case strings.EqualFold(name, "Expect"):
			r.expects = hasToken(value, "100-continue")
		case strings.EqualFold(name, "Upgrade"):
			r.upgrade = true
		}
		return nil
	})
	return r, err
}

// parseResponse understands the head of a response. Every error wraps errMalformedHead.
func parseResponse(head []byte) (response, error) {
	r := response{framing: framing{contentLength: -1}}
	line, fields := firstLine(head)
	proto, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || status < 100 || proto != "HTTP/1.1" && proto != "HTTP/1.0" {
		return r, fmt.Errorf("%w: status line %.80q", errMalformedHead, line)
	}
	r.status = int(status)
	err = eachField(fields, func(name, value string) error {
		switch {
		case strings.EqualFold(name, "Transfer-Encoding"):
			if !strings.EqualFold(value, "chunked") {
				return fmt.Errorf("%w: transfer encoding %.80q", errMalformedHead, value)
			}
			r.chunked = true
		case strings.EqualFold(name, "Content-Length"):
			return r.setLength(value)
		}
		return nil
	})
	return r, err
}

// setLength takes a Content-Length; several must be the same.
func (f *framing) setLength(value string) error {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || f.contentLength >= 0 && f.contentLength != int64(n) {
		return fmt.Errorf("%w: content length %.80q", errMalformedHead, value)
	}
	f.contentLength = int64(n)
	return nil
}

// firstLine splits a head into its first line and the rest. The one copy that makes it a string is the only one.
func firstLine(head []byte) (line, fields string) {
	line, fields, _ = strings.Cut(string(bytes.TrimLeft(head, "\r\n")), "\n")
	return strings.TrimSuffix(line, "\r"), fields
}

// eachField shows the fields of a head one by one, up to the blank line.
func eachField(fields string, see func(name, value string) error) error {
	for fields != "" {
		var line string
		line, fields, _ = strings.Cut(fields, "\n")
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			return nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return fmt.Errorf("%w: field %.80q", errMalformedHead, line)
		}
		if err := see(name, strings.Trim(value, " \t")); err != nil {
			return err
		}
	}
	return nil
}

// isToken tells whether s is a token of RFC 9110, section 5.6.2: no space, no control character, no separator.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// hasToken tells whether a list of tokens, separated by commas, has one.
func hasToken(list, token string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(item, " \t"), token) {
			return true
		}
	}
	return false
}
