package http2

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFields is how long all fields of one block may be together, in bytes as SETTINGS_MAX_HEADER_LIST_SIZE counts them:
// name, value and 32. The longest fields that clients send are credentials for many registries.
const MaxFields = 128 << 10

// Reader reads frames.
type Reader struct {
	br   *bufio.Reader
	used int // how much of br is the frame that was read last
	dec  *decoder
}

// NewReader returns a reader of what follows the preface. br's buffer must have room for a frame of MaxPayload.
func NewReader(br *bufio.Reader) *Reader { return &Reader{br: br, dec: newDecoder()} }

// Next waits for the next frame, or the next block of fields. What the RFC requires a reader to ignore is skipped.
// io.EOF says that the connection has ended between two frames. An error that wraps ErrMalformed says that no byte
// after what was read before can be understood.
func (r *Reader) Next() (Frame, error) {
	for {
		f, err := r.next()
		if err == nil {
			err = f.check()
		}
		switch {
		case err != nil:
			return Frame{}, err
		case f.Type == TypePriority || f.Type > TypeContinuation:
			continue
		case f.Type == TypeHeaders:
			return r.block(f)
		}
		return f, nil
	}
}

// Ready reports whether the next frame has come already. For a block of fields, Next may still have to wait.
func (r *Reader) Ready() bool {
	b, _ := r.br.Peek(r.br.Buffered()) // these bytes are there, so there is no error
	b = b[r.used:]
	return len(b) >= HeadLen && len(b) >= HeadLen+lengthOf(b)
}

func lengthOf(head []byte) int { return int(head[0])<<16 | int(head[1])<<8 | int(head[2]) }

// next returns the next frame as it stands in the buffer.
func (r *Reader) next() (Frame, error) {
	_, err := r.br.Discard(r.used)
	r.used = 0
	if err != nil {
		return Frame{}, err
	}
	head, err := r.br.Peek(HeadLen)
	if errors.Is(err, io.EOF) && len(head) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return Frame{}, err
	}
	n := lengthOf(head)
	if n > MaxPayload {
		return Frame{}, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, n)
	}
	whole, err := r.br.Peek(HeadLen + n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return Frame{}, err
	}
	r.used = len(whole)
	whole[5] &= 0x7f // a reserved bit
	return Frame{Type: Type(whole[3]), Flags: whole[4], Stream: binary.BigEndian.Uint32(whole[5:]), Payload: whole[HeadLen:], whole: whole}, nil
}

// block reads the rest of a block of fields, of which f is the first frame.
func (r *Reader) block(f Frame) (Frame, error) {
	pad := f.padding()
	if pad < 0 {
		return Frame{}, f.must(false)
	}
	part := f.Payload[:len(f.Payload)-pad]
	if f.Flags&flagPadded != 0 {
		part = part[1:]
	}
	if f.Flags&flagPriority != 0 {
		if len(part) < 5 {
			return Frame{}, f.must(false)
		}
		part = part[5:]
	}
	var whole []byte // of what came in several frames
	for last, n := f.Flags&flagEndHeaders != 0, 0; !last; {
		// An empty frame counts too: a block must come to an end.
		if n += HeadLen + len(part); n > MaxFields {
			return Frame{}, fmt.Errorf("%w: header fields on stream %d that are too long", ErrMalformed, f.Stream)
		}
		whole = append(whole, part...)
		more, err := r.next()
		if err != nil {
			return Frame{}, err
		}
		if more.Type != TypeContinuation || more.Stream != f.Stream {
			return Frame{}, more.must(false)
		}
		part, last = more.Payload, more.Flags&flagEndHeaders != 0
	}
	if whole != nil {
		part = append(whole, part...)
	}
	fields, err := r.dec.decode(part, MaxFields)
	if err != nil {
		return Frame{}, fmt.Errorf("%w: stream %d has %w", ErrMalformed, f.Stream, err)
	}
	return Frame{Type: TypeHeaders, Flags: f.Flags, Stream: f.Stream, Fields: fields}, nil
}
