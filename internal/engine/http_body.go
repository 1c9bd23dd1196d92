package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

var (
	// ErrBodyTooLong says that a body has more bytes than its reader accepts.
	ErrBodyTooLong = errors.New("body is too long")
	// ErrMalformedChunk says that a chunked body cannot be understood.
	ErrMalformedChunk = errors.New("malformed chunked body")
)

// ReadBody reads the body that follows the head of a request. Without a length a request has none.
func (r Request) ReadBody(br *bufio.Reader, limit int) ([]byte, error) {
	if !r.Chunked && r.ContentLength <= 0 {
		return nil, nil
	}
	return r.read(br, limit)
}

// ReadBody reads the body that follows the head of a final response to a request other than HEAD. Without a length it
// lasts until the server hangs up.
func (r Response) ReadBody(br *bufio.Reader, limit int) ([]byte, error) {
	if r.Status == 204 || r.Status == 304 {
		return nil, nil // whatever the head says
	}
	return r.read(br, limit)
}

// read returns the data of a body. One of more than limit bytes is ErrBodyTooLong, one whose chunks cannot be understood
// ErrMalformedChunk, one that is cut off io.ErrUnexpectedEOF.
func (f framing) read(br *bufio.Reader, limit int) ([]byte, error) {
	var from io.Reader = br
	switch {
	case f.Chunked:
		from = &chunked{br: br}
	case f.ContentLength > int64(limit):
		return nil, ErrBodyTooLong
	case f.ContentLength >= 0:
		body := make([]byte, f.ContentLength)
		if _, err := io.ReadFull(br, body); errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	if err == nil && len(body) > limit {
		err = ErrBodyTooLong
	}
	return body, err
}

// chunked reads the data of a chunked body (RFC 9112, section 7.1). Extensions and trailers are passed over. What follows
// the body is never read as a message, so nothing depends on where others see its end.
type chunked struct {
	br          *bufio.Reader
	left        int64 // of the data of this chunk, in bytes
	begun, done bool
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.left == 0 && !c.done {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if c.done {
		return 0, io.EOF
	}
	n, err := c.br.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, cutOff(err)
}

// next reads up to the data of the next chunk, or the end.
func (c *chunked) next() error {
	if c.begun {
		if line, err := c.line(); err != nil {
			return err
		} else if line != "" {
			return fmt.Errorf("%w: no line end after the data", ErrMalformedChunk)
		}
	}
	c.begun = true
	line, err := c.line()
	if err != nil {
		return err
	}
	digits, _, _ := strings.Cut(line, ";")
	size, err := strconv.ParseUint(strings.TrimRight(digits, " \t"), 16, 63)
	if err != nil {
		return fmt.Errorf("%w: size %.80q", ErrMalformedChunk, digits)
	}
	c.left, c.done = int64(size), size == 0
	for c.done && line != "" {
		if line, err = c.line(); err != nil {
			return err
		}
	}
	return nil
}

// line reads a line without its end. A longer one than the reader's buffer is malformed.
func (c *chunked) line() (string, error) {
	line, err := c.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("%w: long line", ErrMalformedChunk)
	}
	return strings.TrimRight(string(line), "\r\n"), cutOff(err)
}

// cutOff is the error for a connection that has ended where it may not.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
