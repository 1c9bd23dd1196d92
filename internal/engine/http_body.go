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
// ErrMalformedChunk, one that is cut off io.EOF or io.ErrUnexpectedEOF.
func (f framing) read(br *bufio.Reader, limit int) ([]byte, error) {
	switch {
	case f.Chunked:
		return readChunks(br, limit)
	case f.ContentLength > int64(limit):
		return nil, ErrBodyTooLong
	case f.ContentLength >= 0:
		return appendFrom(br, nil, int(f.ContentLength))
	}
	body, err := io.ReadAll(io.LimitReader(br, int64(limit)+1))
	if err == nil && len(body) > limit {
		err = ErrBodyTooLong
	}
	return body, err
}

// readChunks reads a chunked body (RFC 9112, section 7.1). Extensions and trailers are passed over. What follows the body is
// never read as a message, so nothing depends on where others see its end.
func readChunks(br *bufio.Reader, limit int) (body []byte, err error) {
	for {
		line, err := readLine(br)
		if err != nil {
			return nil, err
		}
		digits, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseUint(strings.TrimRight(digits, " \t"), 16, 63)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: size %.80q", ErrMalformedChunk, digits)
		case size == 0:
			for line != "" && err == nil {
				line, err = readLine(br)
			}
			return body, err
		case size > uint64(limit-len(body)):
			return nil, ErrBodyTooLong
		}
		if body, err = appendFrom(br, body, int(size)); err != nil {
			return nil, err
		}
		if line, err = readLine(br); err != nil {
			return nil, err
		} else if line != "" {
			return nil, fmt.Errorf("%w: no line end after the data", ErrMalformedChunk)
		}
	}
}

// appendFrom appends the next n bytes.
func appendFrom(br *bufio.Reader, body []byte, n int) ([]byte, error) {
	at := len(body)
	body = append(body, make([]byte, n)...)
	_, err := io.ReadFull(br, body[at:])
	return body, err
}

// readLine reads a line without its end. A longer one than the reader's buffer is malformed.
func readLine(br *bufio.Reader) (string, error) {
	line, err := br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("%w: long line", ErrMalformedChunk)
	}
	return strings.TrimRight(string(line), "\r\n"), err
}
