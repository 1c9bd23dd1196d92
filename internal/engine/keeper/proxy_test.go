package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/engine"
)

const added = `{"Image":"x","Labels":{"mcp-tether.session":"s"}}`

// A create gets our labels, whatever the form of its body, and its id is known before the client has the answer.
func TestCreateIsLabelledAndSeenBeforeItsReply(t *testing.T) {
	for name, request := range map[string]string{
		"length":  post("/v1.41/containers/create?name=n", `{"Image":"x"}`),
		"chunked": "POST /v1.41/containers/create?name=n HTTP/1.1\r\nHost: docker\r\nTransfer-Encoding: chunked\r\nX-Kept: yes\r\n\r\n6\r\n{\"Imag\r\n7;e=f\r\ne\":\"x\"}\r\n0\r\nTrailer: t\r\n\r\n",
		// The engine gets no byte of what is behind it.
		"another behind it": post("/v1.41/containers/create?name=n", `{"Image":"x"}`) + post("/containers/create", "{}"),
	} {
		t.Run(name, func(t *testing.T) {
			answer := "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"I\r\n8\r\nd\":\"c1\"}\r\n0\r\n\r\n"
			s := newScene(t, func(c *peer) {
				c.hear("POST /v1.41/containers/create?name=n HTTP/1.1\r\nHost: docker\r\nX-Kept: yes\r\nContent-Length: " +
					fmt.Sprint(len(added)) + "\r\nConnection: close\r\n\r\n" + added)
				c.say("HTTP/1.1 103 Early Hints\r\n\r\n" + answer)
				c.hearEnd()
			})
			c := s.client()
			c.say(request)
			c.hear("HTTP/1.1 103 Early Hints\r\n\r\n" + answer)
			s.expectMade("c1")
		})
	}
}

func TestEveryKindOfCreate(t *testing.T) {
	answers := map[string]string{
		"POST /networks/create":                reply(201, `{"Id":"n1","Warning":""}`),
		"POST /volumes/create":                 reply(201, `{"CreatedAt":"x","Name":"v1"}`),
		"POST /v4.0.0/libpod/networks/create":  reply(200, `{"name":"nn","id":"n2"}`),
		"POST /v4.0.0/libpod/pods/create":      reply(201, `{"Id":"p1"}`),
		"POST /containers/create?name=refused": reply(409, `{"message":"in use"}`),
	}
	s := newScene(t, table(answers))
	for _, target := range []string{
		"POST /networks/create", "POST /volumes/create", "POST /v4.0.0/libpod/networks/create", "POST /v4.0.0/libpod/pods/create", "POST /containers/create?name=refused",
	} {
		s.ask(target+" HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", answers[target])
	}
	s.expectMade("n1 n2 p1")
}

// The engine is not asked for what cannot be labelled.
func TestCreateThatCannotBeLabelledIsRefused(t *testing.T) {
	for request, status := range map[string]int{
		post("/containers/create", `{"Image":"x"} x`):                              400,
		post("/containers/create", ``):                                             400,
		post("/v1.41/networks/create", `{"Labels":["x"]}`):                         400,
		"POST /containers/create HTTP/1.1\r\n\r\n":                                 400,
		"POST /containers/create HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n{": 413,
		"POST /containers/create HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s", maxCreate+1, strings.Repeat("x", maxCreate+1)): 413,
		"POST /containers/create HTTP/1.1\r\nContent-Length: +2\r\n\r\n{}":                                                                                400,
		"POST /containers/create HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n":                                                400,
		"POST /containers/create HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nrubbish\r\n":                                                               400,
		"POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ":                                                           400,
		"POST /containers/create HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n":                                                        400,
		"POST /%zz HTTP/1.1\r\n\r\n": 400,
		// A Go server that speaks HTTP/2 too waits for 14 bytes before it looks at a request (net/http, server.go). This
		// request has 13: the server would wait for the next one, and the proxy for the response.
		"T  HTTP/1.1\n\n" + post("/x", ""):                                         400,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00":     400,
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", engine.MaxHead) + "\r\n\r\n": 431,
	} {
		s := newScene(t, func(c *peer) { c.hearEnd() })
		c := s.client()
		go func() { _, _ = io.WriteString(c.Conn, request) }() // all of the longest is not read
		head, err := engine.ReadHead(c.br)
		if err != nil {
			t.Fatalf("%.80q: %v", request, err)
		}
		r, err := engine.ParseResponse(head)
		if err != nil || r.Status != status {
			t.Errorf("%.80q: %q, %v", request, head, err)
		}
		if data, err := r.ReadBody(c.br, 1<<20); err != nil || !bytes.Contains(data, []byte(`"message":"mcp-tether: `)) {
			t.Errorf("%.80q: %q, %v", request, data, err)
		}
		c.hearEnd()
		s.expectMade("")
	}
}

// What Docker takes in a create is far more than clients send. It arrives whole, with our labels.
func TestLongCreate(t *testing.T) {
	long := `{"Env":["A=` + strings.Repeat("0123456789abcdef", 3<<16) + `"]`
	s := newScene(t, func(e *peer) {
		_, object, ok := e.hearRequest()
		if !ok || object != long+`,"Labels":{"mcp-tether.session":"s"}}` {
			t.Errorf("the engine heard %d bytes, which begin with %.40q", len(object), object)
		}
		e.say(reply(201, `{"Id":"c1"}`))
	})
	s.ask(post("/containers/create", long+"}"), reply(201, `{"Id":"c1"}`))
	s.ask(fmt.Sprintf("POST /containers/create HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s}\r\n0\r\n\r\n", len(long)+1, long), reply(201, `{"Id":"c1"}`))
}

// A listener that has no files left gets some later. The session keeps its engine.
func TestClientThatCannotBeAcceptedAtOnce(t *testing.T) {
	s := newScene(t, table(map[string]string{"GET /_ping": reply(200, "OK")}))
	l := &poor{Listener: s.listen("poor"), left: 3}
	done := make(chan struct{})
	other := &proxy{Dial: s.proxy.Dial, Warn: s.proxy.Warn}
	go func() {
		defer close(done)
		other.Serve(l)
	}()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := newPeer(t, c)
	p.say("GET /_ping HTTP/1.1\r\n\r\n")
	p.hear(reply(200, "OK"))
	other.Close()
	<-done
	if s.mu.Lock(); len(s.warnings) != 3 || !errors.Is(s.warnings[0], unix.EMFILE) {
		t.Errorf("warnings: %v", s.warnings)
	}
	s.mu.Unlock()
}

// poor is a listener that some times has no file left.
type poor struct {
	net.Listener
	left int
}

func (p *poor) Accept() (net.Conn, error) {
	if p.left--; p.left >= 0 {
		return nil, unix.EMFILE
	}
	return p.Listener.Accept()
}

func TestClientThatWaitsForContinue(t *testing.T) {
	s := newScene(t, func(c *peer) {
		if head, err := engine.ReadHead(c.br); err != nil || strings.Contains(string(head), "Expect") {
			t.Errorf("%q, %v", head, err)
		}
		c.hear(added)
		c.say(reply(201, `{"Id":"c1"}`))
	})
	c := s.client()
	c.say("POST /containers/create HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 13\r\n\r\n")
	c.hear("HTTP/1.1 100 Continue\r\n\r\n")
	c.say(`{"Image":"x"}`)
	c.hear(reply(201, `{"Id":"c1"}`))
	s = newScene(t, func(c *peer) {
		c.hear(closing("POST /images/load HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"))
		c.say("HTTP/1.1 100 Continue\r\n\r\n")
		c.hear("tar")
		c.say(reply(200, "loaded"))
	})
	c = s.client()
	c.say("POST /images/load HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	c.hear("HTTP/1.1 100 Continue\r\n\r\n")
	c.say("tar")
	c.hear(reply(200, "loaded"))
	c.hearEnd()
}

// What a client sends behind a request goes along unread. The engine reads no further request after "close": net/http is
// what the engines are built on.
func TestNothingHidesBehindARequest(t *testing.T) {
	var served []string
	var mu sync.Mutex
	l := (&scene{T: t, dir: t.TempDir()}).listen("engine")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		served = append(served, r.Method+" "+r.URL.Path)
		mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "OK")
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	s := newScene(t, func(*peer) {}, func(p *proxy) {
		p.Dial = func(context.Context) (net.Conn, error) { return net.Dial("unix", l.Addr().String()) }
	})
	hidden := post("/containers/create", "{}")
	for _, first := range []string{
		"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD /_ping HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"GET /_ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"POST /containers/c/attach HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"POST /containers/c/attach HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST /containers/c/attach HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
		"POST /containers/c/attach HTTP/1.0\r\nConnection: keep-alive, Upgrade\r\nUpgrade: tcp\r\n\r\n",
		// As Java's HttpClient begins each connection.
		"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n\r\n",
	} {
		c := s.client()
		c.say(first + hidden)
		_, _ = io.ReadAll(c.br)
		_ = c.Close()
		mu.Lock()
		if len(served) != 1 || strings.Contains(served[0], "create") {
			t.Errorf("%q: served %q", first, served)
		}
		served = nil
		mu.Unlock()
	}
}

// A request may turn the connection into a stream. What a client says early, behind that request, is part of the
// stream. Each direction ends on its own.
func TestStreams(t *testing.T) {
	for name, c := range map[string]struct{ request, answer string }{
		"upgrade":       {"POST /v1.41/containers/c/attach?stdin=1 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"},
		"raw":           {"POST /exec/e/start HTTP/1.1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"},
		"build session": {"POST /session HTTP/1.1\r\nUpgrade: h2c\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			const early = "{}POST /containers/create HTTP/1.1\r\n\r\n"
			heard := make(chan struct{})
			s := newScene(t, func(e *peer) {
				e.hear(closing(c.request))
				e.say(c.answer + "prompt")
				e.hear(early + "more")
				e.hearEnd()
				close(heard)
				e.say("last words")
			})
			client := s.client()
			client.say(c.request + early)
			client.hear(c.answer + "prompt")
			client.say("more")
			client.hangUp()
			<-heard
			client.hear("last words")
			client.hearEnd()
			s.expectMade("")
		})
	}
}

// upgrade is a request that turns the connection into a stream, and upgraded the answer.
const (
	upgrade  = "POST /containers/c/attach?stdin=1 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
	upgraded = "HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"
)

// The engine may have said all that it has to say before the client begins.
func TestStreamWhoseOutputEndsFirst(t *testing.T) {
	for range 20 { // it went wrong half of the time
		heard := make(chan struct{})
		s := newScene(t, func(e *peer) {
			defer close(heard)
			e.hear(closing(upgrade))
			e.say(upgraded)
			e.hangUp()
			e.hear("input")
			e.hearEnd()
		})
		c := s.client()
		c.say(upgrade)
		c.hear(upgraded)
		c.hearEnd()
		c.say("input")
		c.hangUp()
		<-heard
	}
}

// A client that is killed does not read all that came for it. Then the kernel reports a reset instead of an end.
func TestStreamWhoseClientIsCutOff(t *testing.T) {
	heard := make(chan struct{})
	s := newScene(t, func(e *peer) {
		defer close(heard)
		e.hear(closing(upgrade))
		e.say(upgraded)
		e.hear("input")
		e.say("unread")
		e.hearEnd()
	})
	c := s.client()
	c.say(upgrade)
	c.hear(upgraded)
	c.say("input")
	if _, err := c.Read(make([]byte, 1)); err != nil { // the rest has come as well
		t.Fatal(err)
	}
	_ = c.Close()
	<-heard
}

// dockerode without its option hijack sends standard input as a chunked body that ends with the stream.
func TestStreamInsideOfARequestBody(t *testing.T) {
	s := newScene(t, func(e *peer) {
		e.hear(closing("POST /containers/c/attach HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))
		e.say("HTTP/1.1 200 OK\r\n\r\nout")
		e.hear("2\r\nin\r\n")
		e.say("more")
		e.hear("0\r\n\r\n")
		e.hearEnd()
	})
	c := s.client()
	c.say("POST /containers/c/attach HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
	c.hear("HTTP/1.1 200 OK\r\n\r\nout")
	c.say("2\r\nin\r\n")
	c.hear("more")
	c.say("0\r\n\r\n")
	c.hangUp()
	c.hearEnd()
}

func TestEngineThatAnswersEarlyAndHangsUp(t *testing.T) {
	s := newScene(t, func(e *peer) {
		e.hear(closing("POST /images/load HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))
		e.say(reply(413, "no"))
	})
	c := s.client()
	c.say("POST /images/load HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
	for range 10_000 { // more than any socket holds: nothing that it sends holds it up
		c.say(strings.Repeat("4\r\nmore\r\n", 100))
	}
	c.hear(reply(413, "no"))
	c.hearEnd()
}

// What the engine says to anything but a create is the client's to understand.
func TestEngineThatTalksRubbish(t *testing.T) {
	const bad = "HTTP/1.1 502 Bad Gateway\r\n"
	for rubbish, want := range map[string]string{
		"rubbish": bad, "\r\n\r\n": bad, "HTTP/1.1 2xx\r\n\r\nbody": bad, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nbody": bad,
		"HTTP/1.1 " + strings.Repeat("x", 3*engine.MaxHead/2):  bad,
		"HTTP/1.1 201 Created\r\nContent-Length: -1\r\n\r\n{}": bad,
		"HTTP/1.1 201 Created\r\nContent-Le":                   bad,
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort":    bad,
		"": "",
	} {
		s := newScene(t, func(e *peer) {
			if _, _, ok := e.hearRequest(); ok {
				_, _ = io.WriteString(e.Conn, rubbish) // all of the longest is not read
			}
		})
		c := s.client()
		c.say("GET / HTTP/1.1\r\n\r\n")
		c.hear(rubbish)
		c.hearEnd()
		c = s.client()
		c.say(post("/containers/create", `{"Image":"x"}`))
		c.hear(want)
		if text, err := io.ReadAll(c.br); want == bad && (err != nil || !bytes.Contains(text, []byte("engine's response cannot be understood"))) {
			t.Errorf("%.80q: %q, %v", rubbish, text, err)
		}
		s.expectMade("?")
	}
}

func TestReplyToACreateThatMakesNoSense(t *testing.T) {
	for _, answer := range []string{
		reply(201, `{}`), reply(201, `rubbish`), reply(201, `{"Id":7}`), "HTTP/1.1 204 No Content\r\n\r\n",
	} {
		s := newScene(t, func(e *peer) {
			e.hearRequest()
			e.say(answer)
		})
		s.ask(post("/containers/create", `{"Image":"x"}`), answer)
		s.expectMade("?")
		if s.mu.Lock(); len(s.warnings) != 1 {
			t.Errorf("%.80q: %v", answer, s.warnings)
		}
		s.mu.Unlock()
	}
}

func TestEngineThatCannotBeReached(t *testing.T) {
	s := newScene(t, func(*peer) {}, func(p *proxy) {
		p.Dial = func(context.Context) (net.Conn, error) { return nil, errors.New("no such socket") }
	})
	const text = `{"cause":"mcp-tether","message":"mcp-tether: cannot reach the container engine: no such socket","response":502}`
	for _, method := range []string{"GET", "HEAD", "POST"} {
		c := s.client()
		c.say(method + " /_ping HTTP/1.1\r\n\r\n")
		c.hear("HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(text)) + "\r\nConnection: close\r\n\r\n")
		if method != "HEAD" {
			c.hear(text)
		}
		c.hearEnd()
	}
}

func TestNothingIsDialledBeforeARequest(t *testing.T) {
	s := newScene(t, func(*peer) {})
	for _, said := range []string{"", "GET / HT"} {
		c := s.client()
		c.say(said)
		c.hangUp()
		c.hearEnd()
	}
	if s.mu.Lock(); s.dials != 0 {
		t.Error(s.dials, "connections to the engine")
	}
	s.mu.Unlock()
}

// When a client hangs up, the engine learns of it, because it may be serving a stream that never ends.
func TestClientThatHangsUp(t *testing.T) {
	s := newScene(t, func(e *peer) {
		e.hear(closing("GET /events HTTP/1.1\r\n\r\n"))
		e.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
		e.hearEnd()
		e.say("0\r\n\r\n")
	})
	c := s.client()
	c.say("GET /events HTTP/1.1\r\n\r\n")
	c.hear("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
	c.hangUp()
	c.hear("0\r\n\r\n")
	c.hearEnd()
}

// During a create the engine does not learn of it: it might give up or not, and the outcome would be unknown.
func TestClientThatHangsUpDuringACreate(t *testing.T) {
	done := make(chan struct{})
	s := newScene(t, func(e *peer) {
		e.hearRequest()
		e.say("HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n")
		e.say(`{"Id":"c1"}`)
		e.hearEnd()
		close(done)
	})
	c := s.client()
	c.say(post("/containers/create", `{"Image":"x"}`))
	_ = c.Close()
	<-done
	s.expectMade("c1")
}

func TestClientThatHangsUpInTheMiddleOfACreate(t *testing.T) {
	s := newScene(t, func(e *peer) { e.hearEnd() })
	c := s.client()
	c.say("POST /containers/create HTTP/1.1\r\nContent-Length: 99\r\n\r\n{")
	c.hangUp()
	c.hearEnd()
	s.expectMade("")
}

func TestShutWaitsForWhatIsInFlight(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s := newScene(t, func(e *peer) {
		line, _, ok := e.hearRequest()
		if strings.Contains(line, "create") {
			close(asked)
			<-release
		}
		if ok {
			e.say(reply(201, `{"Id":"c1"}`))
		}
	})
	c := s.client()
	c.say(post("/containers/create", `{"Image":"x"}`))
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.proxy.Shut(ctx) { // returns, because ctx is done
		t.Error("a create without an outcome is taken for settled")
	}
	shut := make(chan struct{})
	go func() {
		if !s.proxy.Shut(context.Background()) {
			t.Error("all outcomes are noted, and it says that they are not")
		}
		s.expectMade("c1")
		close(shut)
	}()
	late := s.client()
	late.say(post("/containers/create", `{}`))
	late.hear("HTTP/1.1 503 Service Unavailable\r\n")
	close(release)
	<-shut
	c.hear(reply(201, `{"Id":"c1"}`))
	// All other requests still pass.
	for _, request := range []string{"POST /containers/c1/start HTTP/1.1\r\n\r\n", "DELETE /containers/c1?force=1 HTTP/1.1\r\n\r\n"} {
		s.ask(request, reply(201, `{"Id":"c1"}`))
	}
}

func TestCloseEndsEverything(t *testing.T) {
	asked := make(chan struct{})
	s := newScene(t, func(e *peer) {
		e.hear(closing("GET / HTTP/1.1\r\n\r\n"))
		close(asked)
		e.hearEnd()
	})
	asking, idle := s.client(), s.client()
	asking.say("GET / HTTP/1.1\r\n\r\n")
	<-asked
	s.proxy.Close()
	asking.hearEnd()
	idle.hearEnd()
	late := proxy{}
	late.Close()
	late.Serve(s.listen("late")) // returns
}

func TestManyClientsAtOnce(t *testing.T) {
	s := newScene(t, table(map[string]string{"GET /_ping": reply(200, "OK"), "POST /containers/create": reply(201, `{"Id":"c1"}`)}))
	var all sync.WaitGroup
	for range 250 {
		all.Go(func() {
			for range 5 {
				s.ask("GET /_ping HTTP/1.1\r\n\r\n", reply(200, "OK"))
				s.ask(post("/containers/create", "{}"), reply(201, `{"Id":"c1"}`))
			}
		})
	}
	all.Wait()
	if n := len(s.made); n != 1250 {
		t.Error(n, "containers seen")
	}
}
