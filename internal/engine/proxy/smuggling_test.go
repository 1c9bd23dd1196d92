package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"mcp-tether/internal/engine"
)

// creates matches the paths of creates.
var creates = regexp.MustCompile(`^(/v[0-9.]+)?(/libpod)?/(containers|networks|volumes)/create$`)

// goEngine is a server of net/http, as the engines are, that counts what is created in it without labels.
type goEngine struct {
	socket string

	mu      sync.Mutex
	open    int        // connections
	closed  *sync.Cond // the last of them
	created int
	hidden  []string // creates without the session's label
}

func newGoEngine(tb testing.TB) *goEngine {
	e := &goEngine{socket: filepath.Join(tb.TempDir(), "engine")}
	e.closed = sync.NewCond(&e.mu)
	l, err := net.Listen("unix", e.socket)
	if err != nil {
		tb.Fatal(err)
	}
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: e, Protocols: both, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed || s == http.StateHijacked {
			e.count(-1)
		}
	}}
	go func() { _ = server.Serve(l) }()
	tb.Cleanup(func() { _ = server.Close() })
	return e
}

func (e *goEngine) dial() (net.Conn, error) {
	c, err := net.Dial("unix", e.socket)
	if err == nil {
		e.count(1)
	}
	return c, err
}

// count counts a connection that begins (1) or has ended (-1). A proxy may begin one while take waits for the end of all.
func (e *goEngine) count(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open += n; e.open == 0 {
		e.closed.Broadcast()
	}
}

// ServeHTTP behaves as the handlers of the engines do. Some read the body first, some answer first, some read nothing,
// and some take the connection over.
func (e *goEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 { // nothing may come this way
		e.mu.Lock()
		e.hidden = append(e.hidden, r.Proto+" "+r.URL.Path)
		e.mu.Unlock()
	}
	clean := path.Clean("/" + r.URL.Path)
	switch name := path.Base(clean); {
	case creates.MatchString(clean) && r.Method == http.MethodPost:
		e.create(w, r)
	case name == "attach" && r.Method == http.MethodPost:
		e.attach(w)
	case name == "build":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, r.Body)
	case name == "kill":
		w.WriteHeader(http.StatusNoContent)
	default:
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "OK")
	}
}

func (e *goEngine) create(w http.ResponseWriter, r *http.Request) {
	var object struct{ Labels map[string]string }
	err := json.NewDecoder(r.Body).Decode(&object)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.created++
	if object.Labels[engine.LabelSession] == "" {
		e.hidden = append(e.hidden, fmt.Sprint(r.URL, object, err))
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"Id":"c%d"}`, e.created)
}

func (e *goEngine) attach(w http.ResponseWriter) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	_, _ = io.Copy(io.Discard, rw)
}

// take returns how many objects were created since the last call, and which of them without labels.
func (e *goEngine) take() (created int, hidden []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.open > 0 {
		e.closed.Wait()
	}
	created, hidden = e.created, e.hidden
	e.created, e.hidden = 0, nil
	return created, hidden
}

// exchangeAll says something at once, hears everything, and hangs up.
func exchangeAll(c net.Conn, said []byte) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Write(said)
		_ = engine.CloseWrite(c)
	}()
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
	<-done
}

// smuggles returns requests that hide a create from one reader or another.
func smuggles() []string {
	const (
		hidden = "POST /containers/create HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
		// A create in HTTP/2: the preface, no settings, POST http://x/containers/create, and its body.
		framed = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
			"\x00\x00\x19\x01\x04\x00\x00\x00\x01\x83\x86\x04\x12/containers/create\x41\x01x\x00\x00\x02\x00\x01\x00\x00\x00\x01{}"
		chunked = " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	)
	out := []string{
		hidden, "GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n" + hidden, "GET /_ping HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"POST /containers/x/attach HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" + hidden, "HEAD /_ping HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
		"POST /exec/x/start HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"POST /x/kill HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n" + hidden,
		"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 90\r\n\r\n0\r\n\r\n" + hidden,
		"POST /x HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
		"GET /x HTTP/1.1\r\nHost: x\r\nA: b\rContent-Length: 90\r\n\r\n" + hidden, "\r\n\r\n" + hidden, "GET /x HTTP/1.1\nHost: x\n\n" + hidden,
		"GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + hidden, "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
		strings.Replace(hidden, "/containers/create", "http://x//v1.41/./containers/%63reate/", 1),
		"T  HTTP/1.1\n\n" + hidden, // too short for a server that looks for HTTP/2 first
		framed, "GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n" + framed, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" + framed,
	}
	for _, path := range []string{"/x", "/build", "/x/kill", "/containers/create", "/libpod/play/kube", "/containers/x/attach"} {
		for _, body := range []string{
			"0000000000000000\r\n\r\n", "00000000000000000\r\n\r\n", "0\r\r\n\r\n", "0\n\n", "0\r\n\n", "0\r\n\r\r\n", "0 \r\n\r\n", "0\r\nA\r\n\r\n", "x\r\n", "2\r\n{}\n0\r\n\r\n",
			"2\r\n{}\r\n0\r\nA: b\r\n\r\n", "2\r\n{}\r\n0\r\n A: b\r\n\r\n", "ffffffffffffffff\r\n{}\r\n0\r\n\r\n", "0;a=\"\r\n\r\n", "3\r\n{}\r\n0\r\n\r\n",
		} {
			out = append(out, "POST "+path+chunked+body+hidden)
		}
	}
	return out
}

// FuzzSmuggling compares how the proxy reads what a client says with net/http, which is the engine here: no create without our
// label reaches it.
func FuzzSmuggling(f *testing.F) {
	for _, seed := range smuggles() {
		f.Add([]byte(seed))
	}
	e, socket := newFuzzed(f)
	f.Fuzz(func(t *testing.T, said []byte) {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		exchangeAll(c, said)
		if _, hidden := e.take(); len(hidden) > 0 {
			t.Errorf("%q: created without a label: %v", said, hidden)
		}
	})
}

// newFuzzed returns an engine, and the socket of a proxy in front of it.
func newFuzzed(f *testing.F) (e *goEngine, socket string) {
	e = newGoEngine(f)
	l, err := net.Listen("unix", filepath.Join(f.TempDir(), "proxy"))
	if err != nil {
		f.Fatal(err)
	}
	p := &Proxy{
		Dial: e.dial, Note: func(engine.Note) {}, Warn: func(error) {},
		Labels: func() map[string]string {
			return map[string]string{engine.LabelSession: "s", engine.LabelRequest: engine.NewRequest()}
		},
	}
	go func() { _ = p.Serve(l) }()
	f.Cleanup(p.Close)
	return e, l.Addr().String()
}

// The control: without the proxy most of what is tried above creates something.
func TestSmugglesCreateWithoutTheProxy(t *testing.T) {
	e := newGoEngine(t)
	n := 0
	for _, said := range smuggles() {
		c, err := e.dial()
		if err != nil {
			t.Fatal(err)
		}
		exchangeAll(c, []byte(said))
		if _, hidden := e.take(); len(hidden) > 0 {
			n++
		}
	}
	if all := len(smuggles()); n < all/4 {
		t.Errorf("%d of %d", n, all)
	}
}
