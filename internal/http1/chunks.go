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

// maxChunkLine is the longest line between the data of a chunked body, in bytes. It is well below the buffer of a
// server built on net/http (4,096 bytes), which would give up in the middle of a longer line.
const maxChunkLine = 1 << 10

// chunks finds the data and the end of a chunked body (RFC 9112, section 7.1). Extensions and trailers are passed over.
// The zero value stands in front of the first chunk.
//
// Only the grammar itself is accepted. The versions of net/http differ in what else they read: a bare line feed, blanks
// behind the size, carriage returns in a line. Where one reader goes on and another gives up, a request can be hidden.
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

// scan takes the next bytes and appends the data among them to data, unless that is nil. It returns how many bytes
// belong to the body: fewer than there are if it ends among them. Every error wraps ErrMalformedChunk; the bytes
// returned with it are those in front of the malformed line.
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
		c.line = append(c.line, rest[:end]...)
		if err := c.takeLine(); err != nil {
			return n, fmt.Errorf("%w: %w", ErrMalformedChunk, err)
		}
		n += end
	}
	return n, nil
}

// takeLine interprets the line, if it is complete.
func (c *chunks) takeLine() error {
	if line := string(c.line); c.next == chunkEnd && line != "\r" && line != "\r\n" {
		return errors.New("no line end after the data")
	}
	if len(c.line) > maxChunkLine {
		return errors.New("long line")
	}
	line, complete := strings.CutSuffix(string(c.line), "\n")
	if !complete {
		return nil
	}
	c.line = c.line[:0]
	line, complete = strings.CutSuffix(line, "\r")
	if !complete || !isText(line) {
		return fmt.Errorf("line %.80q", line)
	}
	switch c.next {
	case chunkSize:
		return c.setSize(line)
	case chunkEnd:
		c.next = chunkSize
	case chunkTrailer:
		if line == "" {
			c.next = chunkDone
			return nil
		}
		if name, _, ok := strings.Cut(line, ":"); !ok || !isToken(name) {
			return fmt.Errorf("trailer %.80q", line)
		}
	}
	return nil
}

// setSize takes the line in front of the data: 1 to 16 hexadecimal digits, then perhaps extensions. ParseInt alone would
// accept a sign as well.
func (c *chunks) setSize(line string) error {
	digits, _, _ := strings.Cut(line, ";")
	n, err := strconv.ParseInt(digits, 16, 64)
	if err != nil || len(digits) > 16 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return fmt.Errorf("size %.80q", digits)
	}
	c.left, c.next = n, chunkData
	if n == 0 {
		c.next = chunkTrailer
	}
	return nil
}
