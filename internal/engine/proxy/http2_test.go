package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"mcp-tether/internal/testkit"
)

func protocols(one, two bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(one)
	p.SetUnencryptedHTTP2(two)
	return p
}

// call is a method of the engine's gRPC server: it sends back what it gets, as it gets it.
func call(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "grpc-status, grpc-message")
	w.Header().Set("X-Path", r.URL.Path+r.Header.Get("X-Sent"))
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	b := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(b)
		_, _ = w.Write(b[:n])
		_ = flush.Flush()
		if err != nil {
			break
		}
	}
	w.Header().Set("Grpc-Status", "0")
	w.Header().Set("Grpc-Message", "all of it")
}

// withGoEngine is a scene in front of a server of net/http, as the engines of today are.
func withGoEngine(t *testing.T, settings ...func(*Proxy)) (*scene, *goEngine) {
	t.Helper()
	e := newGoEngine(t)
	return newScene(t, func(*peer) {}, append([]func(*Proxy){func(p *Proxy) { p.Dial = e.dial }}, settings...)...), e
}

// http2Client is a client of net/http that speaks HTTP/2 from the start.
func (s *scene) http2Client() *http.Client {
	transport := &http.Transport{
		Protocols: protocols(false, true),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", filepath.Join(s.dir, "proxy"))
		},
	}
	s.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testkit.Patience}
}

// ask makes a request and returns the response, which has been read, and its body.
func ask(t *testing.T, client *http.Client, method, target, contentType, body string) (http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://docker"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Errorf("%s %s: %v", method, target, err)
		return http.Response{}, ""
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, target, err)
	}
	return *response, string(b)
}

// Requests other than gRPC are handled as in HTTP/1.1, above all creates. gRPC passes.
func TestHTTP2(t *testing.T) {
	s, e := withGoEngine(t)
	client := s.http2Client()
	long := strings.Repeat("all of it, ", 300_000)
	for _, x := range []struct {
		method, target, kind, body string
		status                     int
		want                       string
	}{
		{"GET", "/_ping", "", "", 200, "OK"},
		{"HEAD", "/_ping", "", "", 200, ""},
		{"POST", "/containers/create?name=n", "application/json", `{"Image":"x"}`, 201, `{"Id":"c1"}`},
		{"POST", "/v1.41/containers/create", "application/grpc", `{"Image":"x"}`, 201, `{"Id":"c2"}`},
		{"POST", "/containers/create", "application/json", `{"Image"`, 400, "labels cannot be added"},
		{"POST", "/containers/x/attach", "", "", 501, "use HTTP/1.1"},
		{"POST", "/grpc", "", "", 501, "use HTTP/1.1"},
		{"POST", "/exec/x/start", "application/json", `{"Detach":false}`, 501, "use HTTP/1.1"},
		{"POST", "/exec/x/start", "application/json", `{"Detach":true}`, 200, "OK"},
		{"POST", "/x/kill", "", "", 204, ""},
		{"POST", "/build", "application/x-tar", long, 200, long},
		{"POST", "/moby.buildkit.v1.Control/Info", "application/grpc", long, 200, long},
		{"POST", "/moby.buildkit.v1.Control/Info", "application/grpc+proto;x=y", "", 200, ""},
	} {
		r, body := ask(t, client, x.method, x.target, x.kind, x.body)
		if r.StatusCode != x.status || x.want == "" && body != "" || !strings.Contains(body, x.want) || r.ProtoMajor != 2 {
			t.Errorf("%s %s: %s %d %.200q", x.method, x.target, r.Proto, r.StatusCode, body)
		}
		if strings.HasPrefix(x.target, "/moby") && (r.Trailer.Get("Grpc-Message") != "all of it" || r.Header.Get("X-Path") != x.target) {
			t.Errorf("%s: %v %v", x.target, r.Header, r.Trailer)
		}
	}
	s.expectNotes("create container r1 n; created container r1 c1 n; create container r2; created container r2 c2")
	client.CloseIdleConnections()
	if created, hidden := e.take(); created != 2 || len(hidden) > 0 {
		t.Errorf("%d created, hidden: %v", created, hidden)
	}
}

// Both directions of a call go on at once, and so do many calls and requests on one connection.
func TestHTTP2Streams(t *testing.T) {
	s, _ := withGoEngine(t)
	client := s.http2Client()
	var all sync.WaitGroup
	for i := range 50 {
		target, kind := "/duplex", ""
		if i%2 == 0 {
			target, kind = "/pack.Service/Method", "application/grpc"
		}
		all.Go(func() { converse(t, client, target, kind) })
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.warnings) > 0 {
		t.Error(s.warnings)
	}
}

// converse says something, hears it, and goes on.
func converse(t *testing.T, client *http.Client, target, kind string) {
	pr, pw := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://docker"+target, pr)
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Content-Type", kind)
	response, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close()
	for i := range 20 {
		said := bytes.Repeat([]byte{byte(i)}, 1+i*1000)
		go func() { _, _ = pw.Write(said) }()
		heard := make([]byte, len(said))
		if _, err := io.ReadFull(response.Body, heard); err != nil || !bytes.Equal(said, heard) {
			t.Errorf("%s: %v", target, err)
			break
		}
	}
	_ = pw.Close()
	if rest, err := io.ReadAll(response.Body); len(rest) > 0 || err != nil {
		t.Errorf("%s: %q, %v", target, rest, err)
	}
}

// A head without a body is passed on at once, and the engine learns that a client has hung up.
func TestHTTP2ResponseThatWaits(t *testing.T) {
	s, e := withGoEngine(t)
	client := s.http2Client()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/hang", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	cancel()
	e.hanging.Wait()
}

// framer is a client that says frames one by one.
type framer struct {
	*http2.Framer
	c   *peer
	enc *hpack.Encoder
	buf bytes.Buffer
}

func (s *scene) framer() *framer {
	c := s.client()
	c.say(http2.ClientPreface)
	f := &framer{Framer: http2.NewFramer(c.Conn, c.br), c: c}
	f.enc = hpack.NewEncoder(&f.buf)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	return f
}

// block encodes fields.
func (f *framer) block(all ...string) []byte {
	f.buf.Reset()
	for i := 0; i < len(all); i += 2 {
		_ = f.enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	return bytes.Clone(f.buf.Bytes())
}

// request begins a request.
func (f *framer) request(stream uint32, end bool, method, path string, more ...string) {
	block := f.block(append([]string{":method", method, ":scheme", "http", ":path", path, ":authority", "docker"}, more...)...)
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: end})
}

// next returns the next frame of one of these types, and nil at the end of the connection.
func (f *framer) next(types ...http2.FrameType) http2.Frame {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return nil
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			_ = f.WriteSettingsAck()
		}
		for _, t := range types {
			if frame.Header().Type == t {
				return frame
			}
		}
	}
}

func (f *framer) expectGoAway(name string) {
	f.c.t.Helper()
	frame := f.next(http2.FrameGoAway)
	if g, ok := frame.(*http2.GoAwayFrame); !ok || g.ErrCode != http2.ErrCodeProtocol || !strings.Contains(string(g.DebugData()), "mcp-tether: malformed") {
		f.c.t.Errorf("%s: %v", name, frame)
	}
	if frame = f.next(); frame != nil {
		f.c.t.Errorf("%s: %v after the end", name, frame)
	}
}

const hiddenCreate = "POST /containers/create HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"

// Whatever breaks the rules ends the connection, and creates nothing.
func TestHTTP2ThatIsMalformed(t *testing.T) {
	s, e := withGoEngine(t)
	const path = "/containers/create"
	for name, say := range map[string]func(f *framer){
		"raw bytes":          func(f *framer) { f.c.say(hiddenCreate) },
		"an even stream":     func(f *framer) { f.request(2, true, "POST", path) },
		"a stream twice":     func(f *framer) { f.request(1, true, "GET", "/_ping"); f.request(1, true, "POST", path) },
		"a lower stream":     func(f *framer) { f.request(5, true, "GET", "/_ping"); f.request(3, true, "POST", path) },
		"data before a head": func(f *framer) { _ = f.WriteData(1, true, []byte("{}")) },
		"data after the end": func(f *framer) {
			f.request(1, true, "POST", "/hang")
			_ = f.WriteData(1, true, []byte("{}"))
		},
		"a second head": func(f *framer) { f.request(1, false, "POST", "/build"); f.request(1, true, "POST", path) },
		"trailers with a path": func(f *framer) {
			f.request(1, false, "POST", "/a.B/C", "content-type", "application/grpc")
			f.request(1, true, "POST", path)
		},
		"two paths": func(f *framer) { f.request(1, true, "POST", "/_ping", ":path", path) },
		"two kinds": func(f *framer) {
			f.request(1, true, "POST", path, "content-type", "application/grpc", "content-type", "a/b")
		},
		"no path":                 func(f *framer) { f.fields(":method", "GET", ":scheme", "http") },
		"an empty path":           func(f *framer) { f.request(1, true, "POST", "", "content-type", "application/grpc") },
		"a late path":             func(f *framer) { f.fields(":method", "POST", ":scheme", "http", "a", "b", ":path", path) },
		"an unknown pseudo field": func(f *framer) { f.request(1, true, "POST", path, ":status", "200") },
		"a line end in a value":   func(f *framer) { f.request(1, true, "GET", "/_ping", "a", "b\r\n\r\n"+hiddenCreate) },
		"a line end in a name":    func(f *framer) { f.request(1, true, "GET", "/_ping", "a: b\r\n\r\n"+hiddenCreate, "c") },
		"a line end in a path":    func(f *framer) { f.request(1, true, "GET", "/_ping HTTP/1.1\r\n\r\n"+hiddenCreate) },
		"a line end in a method":  func(f *framer) { f.request(1, true, hiddenCreate+"GET", "/_ping") },
		"a line end in the host": func(f *framer) {
			f.fields(":method", "GET", ":scheme", "http", ":path", "/_ping", ":authority", "x\r\n\r\n"+hiddenCreate)
		},
		"a capital letter":    func(f *framer) { f.request(1, true, "GET", "/_ping", "A", "b") },
		"a transfer encoding": func(f *framer) { f.request(1, false, "POST", "/x", "transfer-encoding", "chunked") },
		"an upgrade":          func(f *framer) { f.request(1, true, "POST", "/grpc", "connection", "upgrade", "upgrade", "h2c") },
		"two lengths":         func(f *framer) { f.request(1, false, "POST", "/x", "content-length", "1", "content-length", "1") },
		"a signed length":     func(f *framer) { f.request(1, false, "POST", "/x", "content-length", "+1") },
		"two hosts":           func(f *framer) { f.request(1, true, "GET", "/_ping", "host", "other") },
		"a body that is too long": func(f *framer) {
			f.request(1, false, "POST", "/x", "content-length", "2")
			_ = f.WriteData(1, true, []byte("{}"+hiddenCreate))
		},
		"a body that is too short": func(f *framer) {
			f.request(1, false, "POST", path, "content-length", "3")
			_ = f.WriteData(1, true, []byte("{}"))
		},
		"no body of some length": func(f *framer) { f.request(1, true, "POST", path, "content-length", "3") },
		"more than the window": func(f *framer) {
			f.request(1, false, "POST", "/deaf")
			f.request(3, false, "POST", "/deaf")
			for range 200 {
				_ = f.WriteData(1, false, make([]byte, 1<<14))
			}
		},
		"a window of the connection that overflows": func(f *framer) { _ = f.WriteWindowUpdate(0, 1<<31-1) },
		"a window of a stream that overflows": func(f *framer) {
			f.request(1, false, "POST", "/build")
			_ = f.WriteWindowUpdate(1, 1<<31-1)
		},
		"a reset of nothing":  func(f *framer) { _ = f.WriteRSTStream(1, 0) },
		"a grant for nothing": func(f *framer) { _ = f.WriteWindowUpdate(1, 1) },
	} {
		f := s.framer()
		say(f)
		f.expectGoAway(name)
		_ = f.c.Close()
	}
	close(e.deaf)
	s.expectNotes("")
	if created, hidden := e.take(); created > 0 || len(hidden) > 0 {
		t.Errorf("%d created, hidden: %v", created, hidden)
	}
}

func (f *framer) fields(all ...string) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block(all...), EndHeaders: true, EndStream: true})
}

// An engine that speaks only HTTP/1.1 answers for itself, and hears nothing from the client. If there is no engine, the
// client is told so.
func TestHTTP2WithoutAnEngineForIt(t *testing.T) {
	const answer = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
	s := newScene(t, func(c *peer) {
		c.hear(http2.ClientPreface)
		c.hear("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00")
		c.say(answer)
		c.hangUp()
		c.hearEnd()
	})
	f := s.framer()
	f.request(1, true, "GET", "/_ping")
	f.c.hear(answer)
	f.c.hearEnd()

	s = newScene(t, func(*peer) {}, func(p *Proxy) { p.Dial = func() (net.Conn, error) { return nil, errors.New("nobody there") } })
	f = s.framer()
	f.request(1, true, "GET", "/_ping")
	if g, ok := f.next(http2.FrameGoAway).(*http2.GoAwayFrame); !ok || g.LastStreamID != 0 || !strings.Contains(string(g.DebugData()), "nobody there") {
		t.Error(g)
	}
}

// HTTP/2 must begin with the connection, as it must for the engine. Later it is a malformed request.
func TestHTTP2LaterOn(t *testing.T) {
	s, _ := withGoEngine(t)
	for _, before := range []string{"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n"} {
		c := s.client()
		c.say(before + http2.ClientPreface)
		heard, _ := io.ReadAll(c.br)
		if !strings.Contains(string(heard), "400 Bad Request") {
			t.Errorf("%q: %q", before, heard)
		}
	}
}

// If a client goes away in the middle of a create, the create is still noted, as in HTTP/1.1.
func TestHTTP2CreateThatIsReset(t *testing.T) {
	asked, created := make(chan struct{}), make(chan struct{})
	e := newGoEngine(t)
	e.before = func() { close(asked); <-created }
	s := newScene(t, func(*peer) {}, func(p *Proxy) { p.Dial = e.dial })
	f := s.framer()
	f.request(1, false, "POST", "/containers/create")
	_ = f.WriteData(1, true, []byte("{}"))
	<-asked
	_ = f.WriteRSTStream(1, http2.ErrCodeCancel)
	f.request(3, true, "GET", "/_ping")
	if f.next(http2.FrameHeaders) == nil { // so the reset was seen
		t.Error("no response")
	}
	close(created)
	testkit.Until(t, "the note of a create", func() bool { return s.noted() == "create container r1; created container r1 c1" })
}

// However many streams a client opens and resets, only maxStreams are served at once: a create goes on without its
// client.
func TestHTTP2ResetFlood(t *testing.T) {
	release := make(chan struct{})
	e := newGoEngine(t)
	e.before = func() { <-release }
	s := newScene(t, func(*peer) {}, func(p *Proxy) { p.Dial = e.dial })
	f := s.framer()
	refused := make(chan int)
	go func() {
		defer close(refused)
		for n := 0; ; {
			frame, err := f.ReadFrame() // unlike next, this writes nothing
			if r, ok := frame.(*http2.RSTStreamFrame); ok && r.ErrCode == http2.ErrCodeRefusedStream {
				n++
			}
			if err != nil {
				return
			}
			if frame.Header().Type == http2.FramePing {
				refused <- n
			}
		}
	}()
	next := uint32(1)
	create := func(n int) {
		for range n {
			f.request(next, false, "POST", "/containers/create")
			_ = f.WriteData(next, true, []byte("{}"))
			next += 2
		}
		_ = f.WritePing(false, [8]byte{})
	}
	create(maxStreams + 50)
	if n := <-refused; n != 50 {
		t.Errorf("%d refused", n)
	}
	testkit.Until(t, "as many creates as may be", func() bool { return e.most() == maxStreams })
	for i := range uint32(maxStreams) {
		_ = f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	create(100)
	if n := <-refused; n != 150 {
		t.Errorf("%d refused", n)
	}
	close(release)
	testkit.Until(t, "the notes of all creates", func() bool { return strings.Count(s.noted(), "created") == maxStreams })
	if most := e.most(); most > maxStreams {
		t.Errorf("%d at once", most)
	}
}

// The proxy keeps to a client's small windows. What the engine sends and what we answer share them.
func TestHTTP2SmallWindows(t *testing.T) {
	s, _ := withGoEngine(t)
	f := s.framer()
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	f.request(1, false, "POST", "/duplex")
	f.request(3, false, "POST", "/a.B/C", "content-type", "application/grpc")
	const all = 60000
	for _, stream := range []uint32{1, 3} {
		for n := all / 2; n > 0; n -= 10000 {
			_ = f.WriteData(stream, n <= 10000, make([]byte, min(n, 10000)))
		}
	}
	window, got, ended := 65535, map[uint32]int{}, 0
	allowed := map[uint32]int{1: 65535, 3: 65535} // until the settings are acknowledged
	for ended < 2 {
		frame := f.next(http2.FrameData, http2.FrameSettings, http2.FrameHeaders)
		switch d := frame.(type) {
		case nil:
			t.Fatal("the end", got)
		case *http2.SettingsFrame:
		case *http2.MetaHeadersFrame:
			if d.StreamEnded() {
				ended++
			}
		case *http2.DataFrame:
			n := len(d.Data())
			window -= n
			allowed[d.StreamID] -= n
			if got[d.StreamID] += n; window < 0 || allowed[d.StreamID] < 0 {
				t.Fatal("more than was granted", got)
			}
			if d.StreamEnded() {
				ended++
			}
			if n > 0 {
				window += n
				allowed[d.StreamID] += n
				_ = f.WriteWindowUpdate(0, uint32(n))
				_ = f.WriteWindowUpdate(d.StreamID, uint32(n))
			}
		}
	}
	if got[1] != all/2 || got[3] != all/2 {
		t.Error(got)
	}
}
