package http1

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrMalformedChunk says that a chunked body cannot be understood.
var ErrMalformedChunk = errors.New("malformed chunked body")

// maxChunkLine is the longest line between the data of a chunked body, in bytes; net/http allows less.
const maxChunkLine = 16 << 10

// chunks finds the data and the end of a chunked body (RFC 9112, section 7.1). Extensions and trailers are passed over.
// The zero value stands in front of the first chunk.
type chunks struct {
	next chunkPart
	left int64  // of the data of this chunk, in bytes
	line []byte // what has come of a line so far
}

// chunkPart is a part of a chunked body.
type chunkPart int

const (
	chunkSize chunkPart = iota
	chunkData
	chunkEnd // the line end after the data
	chunkTrailer
	chunkDone
)

// scan takes the next bytes, appends the data among them to data, unless that is nil, and returns how many bytes belong
// to the body: fewer than there are if it ends among them. Every error wraps ErrMalformedChunk.
func (c *chunks) scan(b []byte, data *[]byte) (n int, err error) {
	for n < len(b) && c.next != chunkDone {
		rest := b[n:]
		if c.next == chunkData {
			rest = rest[:min(int64(len(rest)), c.left)]
			n += len(rest)
			if c.left -= int64(len(rest)); c.left == 0 {
				c.next = chunkEnd
			}
			if data != nil {
				*data = append(*data, rest...)
			}
			continue
		}
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		n += end
		c.line = append(c.line, rest[:end]...)
		if err := c.finishLine(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// finishLine interprets the line, if it is complete.
func (c *chunks) finishLine() error {
	if len(c.line) > maxChunkLine {
		return fmt.Errorf("%w: long line", ErrMalformedChunk)
	}
	if !bytes.HasSuffix(c.line, []byte("\n")) {
		return nil
	}
	line := strings.TrimSuffix(strings.TrimSuffix(string(c.line), "\n"), "\r")
	c.line = c.line[:0]
	switch c.next {
	case chunkSize:
		return c.setSize(line)
	case chunkEnd:
		c.next = chunkSize
		if line != "" {
			return fmt.Errorf("%w: no line end after a chunk", ErrMalformedChunk)
		}
	case chunkTrailer:
		if line == "" {
			c.next = chunkDone
		}
	}
	return nil
}

// setSize takes the line in front of the data: 1 to 16 hexadecimal digits, then perhaps extensions. ParseInt alone would
// accept a sign or an underscore as well.
func (c *chunks) setSize(line string) error {
	digits, _, _ := strings.Cut(line, ";")
	digits = strings.TrimRight(digits, " \t\r")
	n, err := strconv.ParseInt(digits, 16, 64)
	if err != nil || len(digits) > 16 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return fmt.Errorf("%w: size %.80q", ErrMalformedChunk, digits)
	}
	c.left, c.next = n, chunkData
	if n == 0 {
		c.next = chunkTrailer
	}
	return nil
}
