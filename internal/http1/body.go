package http1

import (
	"bufio"
	"errors"
	"io"
)

// ErrBodyTooLong says that a body has more bytes than its reader accepts.
var ErrBodyTooLong = errors.New("body is too long")

// WriteError is an error of the destination, where both a read and a write may have failed.
type WriteError struct{ Err error }

func (e WriteError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e WriteError) Unwrap() error { return e.Err }

// Body is the part of a message after its head. It knows how much is still to come.
type Body struct {
	left     int64 // in bytes, of a body that is neither chunked nor untilEOF
	chunked  bool
	untilEOF bool // the body ends with the connection
	chunks   chunks
	err      error // why the rest of it cannot be understood
}

// Body returns the body that follows the head of a request. Without a length a request has none.
func (r Request) Body() *Body { return &Body{left: r.ContentLength, chunked: r.Chunked} }

// Body returns the body that follows the head of a response to a request of the given method. Without a length it lasts
// until the server hangs up.
func (r Response) Body(method string) *Body {
	if method == MethodHead || r.Status < 200 || r.Status == 204 || r.Status == 304 {
		return &Body{} // whatever the head says
	}
	return &Body{left: r.ContentLength, chunked: r.Chunked, untilEOF: !r.HasLength()}
}

// Stream returns the body that consists of everything up to the end of the connection.
func Stream() *Body { return &Body{untilEOF: true} }

// UntilEOF reports whether the body ends with the connection, so that no message can follow it.
func (b *Body) UntilEOF() bool { return b.untilEOF }

// Ended reports whether all of the body has been read.
func (b *Body) Ended() bool {
	switch {
	case b.untilEOF:
		return false
	case b.chunked:
		return b.chunks.next == chunkDone
	}
	return b.left <= 0
}

// consume returns how many of the next bytes p belong to the body, and appends what they carry to data, unless that is
// nil. What follows a chunk that cannot be understood belongs to nothing: the error stays, and no byte of it is returned.
func (b *Body) consume(p []byte, data *[]byte) int {
	switch {
	case b.err != nil:
		return 0
	case b.chunked:
		n, err := b.chunks.scan(p, data)
		b.err = err
		return n
	case !b.untilEOF:
		p = p[:min(int64(len(p)), max(b.left, 0))]
		b.left -= int64(len(p))
	}
	if data != nil {
		*data = append(*data, p...)
	}
	return len(p)
}

// buffered consumes what br holds of the body.
func (b *Body) buffered(br *bufio.Reader, data *[]byte) []byte {
	p, _ := br.Peek(br.Buffered()) // these bytes are there, so there is no error
	n := b.consume(p, data)
	_, _ = br.Discard(n)
	return p[:n]
}

// Buffered returns what br already holds of the body, without waiting. The bytes are valid until br is read again. The
// error wraps ErrMalformedChunk if the body cannot be understood after them.
func (b *Body) Buffered(br *bufio.Reader) ([]byte, error) { return b.buffered(br, nil), b.err }

// more waits for at least one byte of the body and consumes what has come. io.EOF says that the body has ended with the
// connection, as it may. io.ErrUnexpectedEOF says that the connection ended too early. ErrMalformedChunk says that the
// body cannot be understood after what was returned before.
func (b *Body) more(br *bufio.Reader, data *[]byte) ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	_, err := br.Peek(1)
	if errors.Is(err, io.EOF) && !b.untilEOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return b.buffered(br, data), nil
}

// Copy copies the body unchanged, each piece as soon as it has come. An error of w is a WriteError, and an error of br is
// returned as it is. io.ErrUnexpectedEOF says that the body is cut off. An error that wraps ErrMalformedChunk says that
// the body cannot be understood. What was copied then ends before the malformed line, or within it.
func (b *Body) Copy(w io.Writer, br *bufio.Reader) error {
	for !b.Ended() {
		p, err := b.more(br, nil)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return WriteError{err}
		}
	}
	return nil
}

// ReadAll reads the body and returns the data that it carries. The bytes as they came are appended to raw, unless that
// is nil; after an error, Copy goes on after them if that is possible. A body of more than limit bytes is
// ErrBodyTooLong, one whose chunks cannot be understood ErrMalformedChunk, one that is cut off io.ErrUnexpectedEOF.
// With raw, the beginning of a body that is too long is read, and its data returned with the error.
func (b *Body) ReadAll(br *bufio.Reader, limit int, raw *[]byte) ([]byte, error) {
	if raw == nil && !b.chunked && b.left > int64(limit) {
		return nil, ErrBodyTooLong
	}
	var data []byte
	for n := 0; !b.Ended(); {
		p, err := b.more(br, &data)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if raw != nil {
			*raw = append(*raw, p...)
		}
		if n += len(p); n > limit {
			return data, ErrBodyTooLong
		}
	}
	return data, nil
}
