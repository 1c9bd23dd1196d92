package container

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// errChunk says that a chunked body is malformed.
var errChunk = errors.New("malformed chunked body")

// chunkedReader decodes a chunked body (RFC 9112, section 7.1). Extensions and trailers are passed over.
type chunkedReader struct {
	br   *bufio.Reader
	left int64 // of the current chunk
	past bool  // a chunk was read, so its line end is due before the next
	err  error
}

func newChunkedReader(br *bufio.Reader) *chunkedReader { return &chunkedReader{br: br} }

// Read gives io.EOF at the body's end only; a connection that ends before gives io.ErrUnexpectedEOF.
func (r *chunkedReader) Read(p []byte) (int, error) {
	if r.err == nil && r.left == 0 {
		r.err = r.next()
	}
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	n, err := r.br.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err != nil {
		r.err = cutOff(err)
	}
	return n, r.err
}

// next reads up to the data of the next chunk, or to the end of the body.
func (r *chunkedReader) next() error {
	if r.past {
		line, err := r.line()
		if err != nil {
			return err
		}
		if len(line) > 0 {
			return fmt.Errorf("%w: no line end after a chunk", errChunk)
		}
	}
	line, err := r.line()
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	r.left, err = parseChunkSize(bytes.TrimRight(size, " \t"))
	r.past = true
	if err != nil || r.left > 0 {
		return err
	}
	for { // trailers
		if line, err = r.line(); err != nil {
			return err
		}
		if len(line) == 0 {
			return io.EOF
		}
	}
}

// line reads a line without its end. It must fit the buffer.
func (r *chunkedReader) line() ([]byte, error) {
	line, err := r.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("%w: long line", errChunk)
	}
	if err != nil {
		return nil, cutOff(err)
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// parseChunkSize reads 1 to 15 hexadecimal digits and nothing else; ParseUint alone would take a '+' or '_' as well.
func parseChunkSize(s []byte) (int64, error) {
	if len(s) == 0 || len(s) > 15 || len(bytes.Trim(s, "0123456789abcdefABCDEF")) > 0 {
		return 0, fmt.Errorf("%w: size %q", errChunk, s)
	}
	n, err := strconv.ParseInt(string(s), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errChunk, err)
	}
	return n, nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
