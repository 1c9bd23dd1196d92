package keeper

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/engine"
)

// A fake engine, for what a real one will not do, and a session that stands in front of it.

// scene is a proxy between a test and a fake engine.
type scene struct {
	*testing.T
	proxy
	dir string

	mu       sync.Mutex
	made     []string
	warnings []error
	dials    int
}

// newScene starts both. Every connection to the engine is served by serve, and closed after it.
func newScene(t *testing.T, serve func(c *peer), settings ...func(*proxy)) *scene {
	t.Helper()
	s := &scene{T: t, dir: t.TempDir()}
	listener := s.listen("engine")
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				serve(newPeer(t, c))
			})
		}
	})
	s.proxy.Dial = func(context.Context) (net.Conn, error) {
		s.mu.Lock()
		s.dials++
		s.mu.Unlock()
		return net.Dial("unix", filepath.Join(s.dir, "engine"))
	}
	s.proxy.Labels = ours
	s.proxy.Made = func(id string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.made = append(s.made, cmp.Or(id, "?"))
	}
	s.proxy.At, s.proxy.Socket = engine.Endpoint{Socket: filepath.Join(s.dir, "engine")}, filepath.Join(s.dir, "proxy")
	s.proxy.Warn = func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.warnings = append(s.warnings, err)
	}
	for _, set := range settings {
		set(&s.proxy)
	}
	proxy := s.listen("proxy")
	go s.proxy.Serve(proxy)
	t.Cleanup(func() {
		s.proxy.Close()
		_ = listener.Close()
		served.Wait()
	})
	return s
}

func (s *scene) listen(name string) net.Listener {
	s.Helper()
	l, err := net.Listen("unix", filepath.Join(s.dir, name))
	if err != nil {
		s.Fatal(err)
	}
	return l
}

func ours() map[string]string { return map[string]string{engine.LabelSession: "s"} }

// client is a new client of the proxy.
func (s *scene) client() *peer {
	s.Helper()
	c, err := net.Dial("unix", filepath.Join(s.dir, "proxy"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	return newPeer(s.T, c)
}

// expectMade expects that these ids were seen so far.
func (s *scene) expectMade(want string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.made, " "); got != want {
		s.Errorf("made: %q instead of %q", got, want)
	}
}

// ask has a new client say something, and expects the answer, and the end of it.
func (s *scene) ask(request, want string) {
	s.Helper()
	c := s.client()
	c.say(request)
	c.hear(want)
	c.hearEnd()
	_ = c.Close()
}

// peer is one end of a connection, played by a test.
type peer struct {
	t *testing.T
	net.Conn
	br *bufio.Reader
}

func newPeer(t *testing.T, c net.Conn) *peer {
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	return &peer{t, c, bufio.NewReader(c)}
}

func (p *peer) say(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.Conn, text); err != nil {
		p.t.Errorf("say %.80q: %v", text, err)
	}
}

// hear expects exactly these bytes next.
func (p *peer) hear(want string) {
	p.t.Helper()
	b := make([]byte, len(want))
	n, err := io.ReadFull(p.br, b)
	if err != nil || string(b) != want {
		p.t.Errorf("heard %.400q instead of %.400q (%v)", b[:n], want, err)
	}
}

// hearEnd expects that the other side says nothing more.
func (p *peer) hearEnd() {
	p.t.Helper()
	b, err := io.ReadAll(p.br)
	if len(b) > 0 || errors.Is(err, net.ErrClosed) || isTimeout(err) {
		p.t.Errorf("heard %.400q, %v instead of an end", b, err)
	}
}

func (p *peer) hangUp() {
	p.t.Helper()
	if err := engine.CloseWrite(p.Conn); err != nil {
		p.t.Error(err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// hearRequest reads a request with its body; ok is false when there are no more.
func (p *peer) hearRequest() (line, object string, ok bool) {
	head, err := engine.ReadHead(p.br)
	if err != nil {
		return "", "", false
	}
	r, err := engine.ParseRequest(head)
	if err != nil {
		p.t.Error(err)
		return "", "", false
	}
	data, err := r.ReadBody(p.br, 1<<30)
	return r.Method + " " + r.Target, string(data), err == nil
}

// reply is an answer with a body.
func reply(status int, object string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s", status, len(object), object)
}

// post is a request with a body.
func post(target, object string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: docker\r\nContent-Length: %d\r\nX-Kept: yes\r\n\r\n%s", target, len(object), object)
}

// table returns an engine that knows some answers, by request line, and gives 404 to all other requests.
func table(answers map[string]string) func(*peer) {
	return func(c *peer) {
		line, _, ok := c.hearRequest()
		answer := answers[line]
		if answer == "" {
			answer = reply(404, `{"message":"no such thing"}`)
		}
		if ok {
			c.say(answer)
		}
	}
}

// closing is a head of a request as the engine gets it.
func closing(head string) string {
	return strings.TrimSuffix(head, "\r\n") + "Connection: close\r\n\r\n"
}
