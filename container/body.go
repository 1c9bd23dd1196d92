package container

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

var errBodyTooLong = errors.New("body is too long")

// writeError is an error of the side that is written to, where both a read and a write may have failed.
type writeError struct{ err error }

func (e writeError) Error() string { return e.err.Error() }
func (e writeError) Unwrap() error { return e.err }

// body is one that is under way; it knows what is still to come of it.
type body struct {
	framing        // contentLength counts down
	untilEOF  bool // all that comes
	malformed bool // its chunks make no sense
	chunks    chunks
}

// bodyOf is the body that follows a head. Without a length, a request has none, and a response one that lasts until the
// engine hangs up.
func bodyOf(f framing, lasts bool) *body {
	none := f.contentLength < 0 && !f.chunked
	return &body{framing: f, untilEOF: none && lasts}
}

// take returns how many of the next bytes b belong to the body, and whether it ends with them. A body whose chunks
// cannot be understood has no end that anybody could find: all that follows belongs to it, for the other side to judge.
func (y *body) take(b []byte) (n int, ended bool) {
	switch {
	case y.untilEOF:
		return len(b), false
	case y.chunked:
		n, err := y.chunks.scan(b)
		if err != nil {
			y.malformed, y.untilEOF = true, true
			return len(b), false
		}
		return n, y.chunks.part == chunkDone
	}
	n = int(min(int64(len(b)), max(y.contentLength, 0)))
	y.contentLength -= int64(n)
	return n, y.contentLength <= 0
}

// ended tells whether nothing of the body is to come.
func (y *body) ended() bool {
	_, ended := y.take(nil)
	return ended
}

// ready takes what is there of the body, without waiting. The bytes are good until br is read again.
func (y *body) ready(br *bufio.Reader) []byte {
	b, _ := br.Peek(br.Buffered()) // these are there, so no error
	n, _ := y.take(b)
	_, _ = br.Discard(n)
	return b[:n]
}

// more waits for at least one byte of the body, and takes what there is. io.EOF says that the body has ended with the
// connection, as it may, io.ErrUnexpectedEOF that the connection ended too early.
func (y *body) more(br *bufio.Reader) ([]byte, error) {
	_, err := br.Peek(1)
	if errors.Is(err, io.EOF) && (!y.untilEOF || y.malformed) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return y.ready(br), nil
}

// pass copies the body as it is, every piece as soon as it is there. An error of w is a writeError; any other is one of
// br: io.ErrUnexpectedEOF for a body that is cut off.
func (y *body) pass(w io.Writer, br *bufio.Reader) error {
	for !y.ended() {
		b, err := y.more(br)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return writeError{err}
		}
	}
	return nil
}

// read takes all of the body: raw is as it came, data what it carries. With an error, raw is what came so far, and pass
// can go on from there. A raw body of more than limit bytes is errBodyTooLong, one that makes no sense errChunk.
func (y *body) read(br *bufio.Reader, limit int) (raw, data []byte, err error) {
	for !y.ended() {
		b, err := y.more(br)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return raw, nil, err
		}
		raw = append(raw, b...)
		if y.malformed {
			return raw, nil, errChunk
		}
		if len(raw) > limit {
			return raw, nil, errBodyTooLong
		}
	}
	if !y.chunked {
		return raw, raw, nil
	}
	data, err = io.ReadAll(newChunkedReader(bufio.NewReader(bytes.NewReader(raw))))
	if err != nil {
		return raw, nil, fmt.Errorf("decode a body: %w", err)
	}
	return raw, data, nil
}
