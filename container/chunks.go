package container

import (
	"bytes"
	"fmt"
	"strings"
)

// chunkLineLimit is the longest line of a chunked body that is not data, in bytes; net/http allows for less.
const chunkLineLimit = 16 << 10

// chunks finds where a chunked body ends, without changing a byte of it (RFC 9112, section 7.1); chunkedReader is for
// who wants the data. The zero value stands in front of the first chunk.
type chunks struct {
	part chunkPart
	left int64  // of the data of this chunk, in bytes
	line []byte // what has been seen of a line
}

// chunkPart is what comes next in a chunked body.
type chunkPart int

const (
	chunkSize chunkPart = iota
	chunkData
	chunkEnd // the line end after the data
	chunkTrailer
	chunkDone
)

// scan takes the next bytes and returns how many of them belong to the body: fewer than there are if it ends among them.
func (c *chunks) scan(b []byte) (n int, err error) {
	for n < len(b) && c.part != chunkDone {
		rest := b[n:]
		if c.part == chunkData {
			taken := min(int64(len(rest)), c.left)
			n += int(taken)
			if c.left -= taken; c.left == 0 {
				c.part = chunkEnd
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

// finishLine judges the line if it is whole. Every error wraps errChunk.
func (c *chunks) finishLine() error {
	if len(c.line) > chunkLineLimit {
		return fmt.Errorf("%w: long line", errChunk)
	}
	line, whole := strings.CutSuffix(string(c.line), "\n")
	if !whole {
		return nil
	}
	c.line = c.line[:0]
	line = strings.TrimSuffix(line, "\r")
	switch c.part {
	case chunkSize:
		return c.size(line)
	case chunkEnd:
		c.part = chunkSize
		if line != "" {
			return fmt.Errorf("%w: no line end after a chunk", errChunk)
		}
	case chunkTrailer:
		if line == "" {
			c.part = chunkDone
		}
	}
	return nil
}

// size takes the line in front of the data: a number, then perhaps extensions.
func (c *chunks) size(line string) error {
	digits, _, _ := strings.Cut(line, ";")
	n, err := parseChunkSize([]byte(strings.TrimRight(digits, " \t")))
	if err != nil {
		return err
	}
	c.left, c.part = n, chunkData
	if n == 0 {
		c.part = chunkTrailer
	}
	return nil
}
