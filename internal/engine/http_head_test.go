package engine

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestReadHead(t *testing.T) {
	long := "GET / HTTP/1.1\r\nX: " + strings.Repeat("y", 64) + "\r\n\r\n"
	for name, c := range map[string]struct {
		in, head string
		err      error
	}{
		"whole":                  {"GET / HTTP/1.1\r\nA: b\r\n\r\nbody", "GET / HTTP/1.1\r\nA: b\r\n\r\n", nil},
		"bare line feeds":        {"GET / HTTP/1.1\nA: b\n\nbody", "GET / HTTP/1.1\nA: b\n\n", nil},
		"blank lines before":     {"\r\nGET / HTTP/1.1\r\n\r\n", "\r\n", nil},
		"a carriage return":      {"A\n\r\r\n\r\n", "A\n\r\r\n\r\n", nil},
		"nothing":                {"", "", io.EOF},
		"cut off":                {"GET / HTTP/1.1\r\nA", "GET / HTTP/1.1\r\nA", io.ErrUnexpectedEOF},
		"cut off before the end": {"GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n", io.ErrUnexpectedEOF},
		"a line as long as the buffer": { // the rest of the line, only its end, is no blank line
			"GET /567890123\r\nB: c\r\n\r\n", "GET /567890123\r\nB: c\r\n\r\n", nil,
		},
		"longer than the buffer": {long, long, nil},
		"too long":               {"GET / HTTP/1.1\r\nX: " + strings.Repeat("y", MaxHead), "", ErrHeadTooLong},
	} {
		head, err := ReadHead(bufio.NewReaderSize(strings.NewReader(c.in), 16))
		if !errors.Is(err, c.err) || c.head != "" && string(head) != c.head {
			t.Errorf("%s: %q, %v", name, head, err)
		}
	}
}

func TestParseRequest(t *testing.T) {
	for head, want := range map[string]Request{
		"GET /_ping HTTP/1.1\r\n\r\n": {framing{-1, false}, "GET", "/_ping", false, false},
		"POST /x HTTP/1.1\r\ncontent-length:  12 \r\nExpect: 100-Continue\r\n\r\n": {
			framing{12, false}, "POST", "/x", true, false,
		},
		"GET /x HTTP/1.1\r\nupgrade: tcp\r\n\r\n": {framing{-1, false}, "GET", "/x", false, true},
		"POST /x HTTP/1.1\nTransfer-Encoding: Chunked\n\n": {
			framing{-1, true}, "POST", "/x", false, false,
		},
		"POST /x HTTP/1.0\r\nContent-Length: 3\r\nContent-Length: 3\r\nUpgrade: tcp\r\n\r\n": {
			framing{3, false}, "POST", "/x", false, false,
		},
	} {
		if r, err := ParseRequest([]byte(head)); err != nil || r != want {
			t.Errorf("%q: %+v, %v", head, r, err)
		}
	}
}

// A head that an engine might read differently is refused.
func TestRequestsThatTwoMayReadDifferently(t *testing.T) {
	for _, head := range []string{
		"GET / HTTP/2.0\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\n",
		"GET /a b HTTP/1.1\r\n\r\n",
		"GET /\r\n\r\n",
		"\x16\x03\x01\n\n",
		"G(T / HTTP/1.1\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\x0b\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\r\n\r\n",
		"POST / HTTP/1.1\r\nA: b\rContent-Length: 3\r\n\r\n",
		"POST / HTTP/1.1\r\nA: b\x00\r\n\r\n",
		"POST / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
		"POST /\r HTTP/1.1\r\n\r\n",
		"POST /\x00 HTTP/1.1\r\n\r\n",
		"POST / HTTP/1.1\r\r\n\r\n",
		"POST / HTTP/1.1\r\nnothing\r\n\r\n",
		"POST / HTTP/1.1\r\n: x\r\n\r\n",
		"POST / HTTP/1.1\r\n\r\r\n\r\n",
		"\r\n",
	} {
		if r, err := ParseRequest([]byte(head)); !errors.Is(err, ErrMalformedHead) {
			t.Errorf("%q: %+v, %v", head, r, err)
		}
	}
}

func TestParseResponse(t *testing.T) {
	for head, want := range map[string]Response{
		"HTTP/1.1 200 OK\r\n\r\n":                             {framing{-1, false}, 200},
		"HTTP/1.1 101 UPGRADED\r\n\r\n":                       {framing{-1, false}, 101},
		"HTTP/1.0 404\nContent-Length: 7\n\n":                 {framing{7, false}, 404},
		"HTTP/1.1 201 \r\nTransfer-Encoding: chunked\r\n\r\n": {framing{-1, true}, 201},
	} {
		if r, err := ParseResponse([]byte(head)); err != nil || r != want {
			t.Errorf("%q: %+v, %v", head, r, err)
		}
	}
	for _, head := range []string{
		"", "\r\n\r\n", "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 +20 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
	} {
		if r, err := ParseResponse([]byte(head)); !errors.Is(err, ErrMalformedHead) {
			t.Errorf("%q: %+v, %v", head, r, err)
		}
	}
}

func TestEdit(t *testing.T) {
	const head = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nupgrade : no\r\nUPGRADE: h2c\r\n\r\n"
	const want = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nupgrade : no\r\nConnection: close\r\n\r\n"
	if got := Edit([]byte(head), []string{"Upgrade"}, "Connection: close"); string(got) != want {
		t.Errorf("%q", got)
	}
	if got := Edit([]byte("GET / HTTP/1.1\nA: b\n\n"), nil, "C: d"); string(got) != "GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

// FuzzHead compares how we read a request with net/http, on which every engine is built. No request that the two read
// differently may reach an engine.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{
		"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n",
		"POST /v1.41/containers/create?name=a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		checkResponse(t, in)
		br := bufio.NewReaderSize(bytes.NewReader(in), 16)
		head, err := ReadHead(br)
		if !bytes.HasPrefix(in, head) {
			t.Fatalf("%q is not what was there", head)
		}
		if err != nil {
			return
		}
		ours, err := ParseRequest(head)
		if err != nil {
			return
		}
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			return // we may be more lenient than the engine: it has the last word
		}
		if theirs.Method != ours.Method || theirs.RequestURI != ours.Target {
			t.Errorf("%q: %+v, but net/http reads %s %s", head, ours, theirs.Method, theirs.RequestURI)
		}
		if !closed(theirs.Header) {
			again, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(Edit(head, []string{"Upgrade"}, "Connection: close"))))
			if err != nil || again.RequestURI != ours.Target || !again.Close || again.Header.Get("Upgrade") != "" {
				t.Errorf("%q: edited it is %+v, %v", head, again, err)
			}
		}
	})
}

func closed(h http.Header) bool {
	return strings.Contains(strings.ToLower(strings.Join(h["Connection"], ",")), "close")
}

func checkResponse(t *testing.T, in []byte) {
	head, err := ReadHead(bufio.NewReader(bytes.NewReader(in)))
	if err != nil {
		return
	}
	ours, err := ParseResponse(head)
	if err != nil {
		return
	}
	theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil)
	if err != nil || strings.HasPrefix(theirs.Proto, "HTTP/1.0") {
		return
	}
	defer theirs.Body.Close()
	if chunked := len(theirs.TransferEncoding) > 0; theirs.StatusCode != ours.Status || ours.Status >= 200 && ours.Status != 204 && ours.Status != 304 && chunked != ours.Chunked {
		t.Errorf("%q: %+v, but net/http reads %d %v", head, ours, theirs.StatusCode, theirs.TransferEncoding)
	}
}
