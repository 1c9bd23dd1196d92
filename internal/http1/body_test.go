package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
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
		"a size that is none":   {framing{-1, true}, true, "x\r\nbody", "", "", ErrMalformedChunk},
		"no end after the data": {framing{-1, true}, true, "1\r\nbody\r\n", "1\r\nb", "", ErrMalformedChunk},
		"an endless line":       {framing{-1, true}, true, strings.Repeat("0", 20000), "", "", ErrMalformedChunk},
		"too long":              {framing{99999, false}, true, strings.Repeat("x", 99999), "", strings.Repeat("x", 8*4096), ErrBodyTooLong}, // its beginning
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

// Once a body cannot be understood, no more of it is passed on, and nothing that follows it, which might be a request.
func TestNothingPassesBehindAMalformedChunk(t *testing.T) {
	const hidden = "POST /containers/create HTTP/1.1\r\n\r\n"
	for _, bad := range []string{
		"rubbish\r\n", "\r\n", "0\n", "0\r\r\n", " 0\r\n", "0 \r\n", "0x0\r\n", "-0\r\n", "+0\r\n", "0_0\r\n", "00000000000000000\r\n", "ffffffffffffffff\r\n",
		"0;a=\x00\r\n", "0;a=\rb\r\n", "0;a\n", "1\r\nx\n", "1\r\nxy\r\n", "0\r\n\n", "0\r\n\r\r\n", "0\r\nTrailer\r\n\r\n", "0\r\n folded: x\r\n\r\n", "0\r\nT: a\n\r\n",
		"0\r\nT: a\rb\r\n\r\n", "0\r\nPOST / HTTP/1.1\r\nA: b\r\n\r\n", "0;" + strings.Repeat("x", maxChunkLine) + "\r\n\r\n",
	} {
		in := "2\r\nok\r\n" + bad + "\r\n" + hidden
		for _, from := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			var out bytes.Buffer
			body := newBody(framing{-1, true}, false)
			err := body.Copy(&out, bufio.NewReader(from))
			if !errors.Is(err, ErrMalformedChunk) || !strings.HasPrefix(in, out.String()) || out.Len() >= len(in)-len(hidden) {
				t.Errorf("%.80q: %.80q, %v", bad, out.String(), err)
			}
			if again := body.Copy(&out, bufio.NewReader(strings.NewReader(hidden))); !errors.Is(again, ErrMalformedChunk) || body.Ended() {
				t.Errorf("%.80q: goes on: %v", bad, again)
			}
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

// FuzzChunks compares the end and the data of a chunked body with net/http of today and of Go 1.19, which older engines have.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("4\r\nbody\r\n0\r\n\r\nnext"), 3)
	f.Add([]byte("a;x=\"y\"\r\n0123456789\r\n00\r\nTrailer: x\r\n\r\n"), 1)
	f.Add([]byte("1 \r\nx\r\n0 ;\r\n\r\n"), 2)
	f.Add([]byte("0000000000000001\r\nx\r\n0\r\r\n\r\n"), 2)
	f.Add([]byte("0\r\nA: b\r\n\r\nPOST / HTTP/1.1\r\n\r\n"), 9)
	f.Add([]byte("0\r\n\r\r\nPOST / HTTP/1.1\r\n\r\n"), 9)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		var (
			c   chunks
			got []byte
		)
		n := 0
		for size = max(size, 1); n < len(in) && c.next != chunkDone; {
			m, err := c.scan(in[n:min(n+size, len(in))], &got)
			if n += m; err != nil {
				return // the connection ends here
			}
		}
		if c.next != chunkDone {
			return
		}
		for name, read := range map[string]func([]byte) ([]byte, int, error){"net/http": referenceChunks, "net/http of Go 1.19": oldChunks} {
			want, end, err := read(in)
			if err == nil && (end != n || !bytes.Equal(got, want)) {
				t.Errorf("%q: %q up to %d, but %s reads %q up to %d", in, got, n, name, want, end)
			}
		}
	})
}

// referenceChunks reads a chunked body with its trailer as a server of net/http does.
func referenceChunks(in []byte) (data []byte, end int, err error) {
	const head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	from := bytes.NewReader(append([]byte(head), in...))
	br := bufio.NewReader(from)
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(r.Body)
	return data, len(in) - from.Len() - br.Buffered(), err
}

// errOld is any error of oldChunks.
var errOld = errors.New("malformed")

// oldChunks reads a chunked body as net/http did up to Go 1.20 (net/http/internal/chunked.go, transfer.go). It takes
// blanks and carriage returns after a size, and bare line feeds. Engines in use are built with such versions of Go.
func oldChunks(in []byte) (data []byte, end int, err error) {
	br := bufio.NewReader(bytes.NewReader(in))
	from := func() int { return len(in) - end }
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return nil, 0, err
		}
		end += len(line)
		digits, _, _ := bytes.Cut(bytes.TrimRight(line, " \t\r\n"), []byte(";"))
		n, err := strconv.ParseUint("0"+string(digits), 16, 64)
		if err != nil || len(digits) > 16 || bytes.ContainsRune(digits, '_') {
			return nil, 0, errOld
		}
		if n == 0 {
			break
		}
		if uint64(from()) < n+2 || n > uint64(len(in)) || string(in[end+int(n):end+int(n)+2]) != "\r\n" {
			return nil, 0, errOld
		}
		data = append(data, in[end:end+int(n)]...)
		end += int(n) + 2
		br.Reset(bytes.NewReader(in[end:]))
	}
	if bytes.HasPrefix(in[end:], []byte("\r\n")) {
		return data, end + 2, nil
	}
	if !bytes.Contains(in[end:min(end+4096, len(in))], []byte("\r\n\r\n")) {
		return nil, 0, errOld
	}
	rest := bufio.NewReader(bytes.NewReader(in[end:]))
	if _, err := textproto.NewReader(rest).ReadMIMEHeader(); err != nil {
		return nil, 0, err
	}
	return data, len(in) - rest.Buffered(), nil
}
