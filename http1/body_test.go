package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
)

func newBody(f framing, ofResponse bool) *Body {
	if ofResponse {
		return Response{f, 200}.Body("GET")
	}
	return Request{framing: f}.Body()
}

func TestBodyEndsWhereItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		framing
		lasts            bool
		in, raw, carries string
		err              error
	}{
		"none":                  {framing{-1, false}, false, "next", "", "", nil},
		"length":                {framing{4, false}, true, "bodynext", "body", "body", nil},
		"length 0":              {framing{0, false}, true, "next", "", "", nil},
		"length, cut off":       {framing{4, false}, true, "bod", "bod", "", io.ErrUnexpectedEOF},
		"until the end":         {framing{-1, false}, true, "body", "body", "body", nil},
		"chunks":                {framing{-1, true}, false, "4\r\nbody\r\n0\r\n\r\nnext", "4\r\nbody\r\n0\r\n\r\n", "body", nil},
		"chunks and a length":   {framing{2, true}, false, "4\r\nbody\r\n0\r\n\r\nnext", "4\r\nbody\r\n0\r\n\r\n", "body", nil},
		"extension and trailer": {framing{-1, true}, false, "2;a=b\r\nbo\r\n00\r\nT: x\r\n\r\nnext", "2;a=b\r\nbo\r\n00\r\nT: x\r\n\r\n", "bo", nil},
		"chunks, cut off":       {framing{-1, true}, true, "4\r\nbo", "4\r\nbo", "", io.ErrUnexpectedEOF},
		"a size that is none":   {framing{-1, true}, true, "x\r\nbody", "x\r\nbody", "", ErrMalformedChunk},
		"no end after the data": {framing{-1, true}, true, "1\r\nbody\r\n", "1\r\nbody\r\n", "", ErrMalformedChunk},
		"an endless line":       {framing{-1, true}, true, strings.Repeat("0", 20000), "", "", ErrMalformedChunk},
		"too long":              {framing{99999, false}, true, strings.Repeat("x", 99999), "", "", ErrBodyTooLong},
	} {
		br := bufio.NewReader(strings.NewReader(c.in))
		var raw []byte
		data, err := newBody(c.framing, c.lasts).ReadAll(br, 30000, &raw)
		if !errors.Is(err, c.err) || c.raw != "" && string(raw) != c.raw || string(data) != c.carries {
			t.Errorf("%s: %q, %q, %v", name, raw, data, err)
		}
		if c.err != nil {
			continue
		}
		if rest, _ := io.ReadAll(br); string(raw)+string(rest) != c.in {
			t.Errorf("%s: %q and %q are left", name, raw, rest)
		}
		var out bytes.Buffer
		one := bufio.NewReader(iotest.OneByteReader(strings.NewReader(c.in)))
		if err := newBody(c.framing, c.lasts).Copy(&out, one); err != nil || out.String() != string(raw) {
			t.Errorf("%s: %q passed, %v", name, out.String(), err)
		}
	}
}

// No reader can tell where a body ends whose chunks are malformed: all that follows is passed on.
func TestMalformedChunksArePassedToTheEnd(t *testing.T) {
	const in = "2\r\nok\r\nrubbish\r\n0\r\n\r\nPOST /containers/create HTTP/1.1\r\n\r\n"
	for _, from := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
		var out bytes.Buffer
		err := newBody(framing{-1, true}, false).Copy(&out, bufio.NewReader(from))
		if !errors.Is(err, io.ErrUnexpectedEOF) || out.String() != in {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
}

func TestErrorsOfSourceAndDestination(t *testing.T) {
	var write WriteError
	r, w := io.Pipe()
	_ = r.Close()
	if err := newBody(framing{4, false}, false).Copy(w, bufio.NewReader(strings.NewReader("body"))); !errors.As(err, &write) {
		t.Errorf("write: %v", err)
	}
	if err := newBody(framing{4, false}, false).Copy(io.Discard, bufio.NewReader(iotest.ErrReader(io.ErrClosedPipe))); errors.As(err, &write) || err == nil {
		t.Errorf("read: %v", err)
	}
}

// A chunked body that the reference reads ends where it says, in whatever pieces it comes.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("4\r\nbody\r\n0\r\n\r\nnext"), 3)
	f.Add([]byte("a;x=\"y\"\r\n0123456789\r\n00\r\nTrailer: x\r\n\r\n"), 1)
	f.Add([]byte("1 \r\nx\r\n0 ;\r\n\r\n"), 2)
	f.Add([]byte("0000000000000001\r\nx\r\n0\r\r\n\r\n"), 2)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		var (
			c   chunks
			got []byte
		)
		n, failed := 0, false
		for size = max(size, 1); n < len(in) && c.next != chunkDone && !failed; {
			m, err := c.scan(in[n:min(n+size, len(in))], &got)
			n, failed = n+m, err != nil
		}
		theirs := bufio.NewReaderSize(bytes.NewReader(in), 1<<16)
		want, err := io.ReadAll(httputil.NewChunkedReader(theirs))
		if err != nil {
			return
		}
		if failed {
			t.Fatalf("%q: the reference reads it", in)
		}
		if c.next != chunkDone {
			return // the reference stops before the trailer
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%q: %q instead of %q", in, got, want)
		}
		if rest := len(in) - theirs.Buffered(); n < rest {
			t.Errorf("%q: ends after %d bytes, the reference is at %d", in, n, rest)
		}
	})
}
