package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A conversation is random bytes around some HTTP: what the client says, and what the engine answers, request by request.
type conversation struct {
	rng     *rand.Rand
	asks    [][]byte
	answers [][]byte
}

// newConversation makes up a conversation. Nothing in it is a create, so nothing in it may change.
func newConversation(seed uint64) *conversation {
	c := &conversation{rng: rand.New(rand.NewPCG(seed, 4))}
	for n := 1 + c.rng.IntN(8); n > 0; n-- {
		method := c.pick("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS")
		ask := method + " " + c.pick("/_ping", "/v1.41/images/create?x=%20", "/images/load", "/containers/x/attach", "/unknown//path?", "/exec/x/start") + " HTTP/1.1\r\n" + c.fields() + "Host: docker\r\n"
		c.asks = append(c.asks, c.withBody(ask, method == "GET" || method == "HEAD"))
		c.answers = append(c.answers, c.answer(method))
	}
	return c
}

func (c *conversation) pick(from ...string) string { return from[c.rng.IntN(len(from))] }

func (c *conversation) fields() string {
	var out strings.Builder
	for range c.rng.IntN(4) {
		out.WriteString("X-" + strings.Repeat("a", c.rng.IntN(9)) + ": " + strings.Repeat("v ", c.rng.IntN(3000)) + "\r\n")
	}
	return out.String()
}

// payload returns random bytes, sometimes more than a buffer holds, and sometimes with an end that looks like HTTP.
func (c *conversation) payload() []byte {
	var b []byte
	for range c.rng.IntN(1 + c.rng.IntN(3)*40000) {
		b = append(b, byte(c.rng.Uint32()))
	}
	return append(b, c.pick("", "\r\n\r\n", "0\r\n\r\n", "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")...)
}

func (c *conversation) withBody(head string, none bool) []byte {
	switch kind := c.rng.IntN(3); {
	case none || kind == 0:
		return []byte(head + c.pick("", "Content-Length: 0\r\n") + "\r\n")
	case kind == 1:
		body := c.payload()
		return append(fmt.Appendf([]byte(head), "Content-Length: %d\r\n\r\n", len(body)), body...)
	}
	return append([]byte(head+"Transfer-Encoding: chunked\r\n\r\n"), c.chunked(c.payload())...)
}

func (c *conversation) chunked(body []byte) []byte {
	var out []byte
	for len(body) > 0 {
		n := 1 + c.rng.IntN(min(len(body), 20000))
		out = fmt.Appendf(out, c.pick("%x\r\n", "%X\r\n", "0%x;ext=\"a\"\r\n"), n)
		out = append(append(out, body[:n]...), "\r\n"...)
		body = body[n:]
	}
	return append(out, c.pick("0\r\n\r\n", "000\r\nTrailer: x\r\n\r\n")...)
}

func (c *conversation) answer(method string) []byte {
	interim := c.pick("", "", "HTTP/1.1 103 Early\r\n"+c.fields()+"\r\n")
	if method == "HEAD" {
		return []byte(interim + "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n")
	}
	if c.rng.IntN(5) == 0 {
		return []byte(interim + c.pick("HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"))
	}
	head := interim + "HTTP/1.1 " + c.pick("200 OK", "404 Not Found", "500 ") + "\r\n" + c.fields()
	body := c.payload()
	if c.rng.IntN(2) == 0 {
		return append(fmt.Appendf([]byte(head), "Content-Length: %d\r\n\r\n", len(body)), body...)
	}
	return append([]byte(head+"Transfer-Encoding: chunked\r\n\r\n"), c.chunked(body)...)
}

// write says something in random pieces.
func write(w io.Writer, rng *rand.Rand, b []byte) error {
	for len(b) > 0 {
		n := 1 + rng.IntN(min(len(b), 1+rng.IntN(50000)))
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// What the engine receives is what was sent, and the other way round, byte for byte and request by request. The engine
// here reads requests with net/http, so another reader than ours finds where they end.
func TestConversationsPassUnchanged(t *testing.T) {
	seeds := make(chan uint64, 1)
	received := make(chan []byte, 1)
	s := newScene(t, func(p *peer) {
		seed := <-seeds
		received <- newConversation(seed).playEngine(p.t, p.Conn, rand.New(rand.NewPCG(seed, 5)))
	})
	conversations := uint64(300)
	if testing.Short() {
		conversations = 60
	}
	for seed := range conversations {
		seeds <- seed
		c := newConversation(seed)
		client := s.client()
		said := make(chan error, 1)
		go func() { // all at once: it is the proxy's business to take one after the other
			err := write(client.Conn, rand.New(rand.NewPCG(seed, 6)), bytes.Join(c.asks, nil))
			said <- err
		}()
		want := bytes.Join(c.answers, nil)
		got := make([]byte, len(want))
		if n, err := io.ReadFull(client.br, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the client heard %d bytes of %d, which differ from byte %d on: %v", seed, n, len(want), differ(got, want), err)
		}
		if err := <-said; err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		client.hangUp()
		client.hearEnd()
		if got, want := <-received, bytes.Join(c.asks, nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the engine heard %d bytes of %d, which differ from byte %d on", seed, len(got), len(want), differ(got, want))
		}
	}
	s.expectNotes("")
}

// playEngine answers every request as planned, and returns all that it heard.
func (c *conversation) playEngine(t *testing.T, conn net.Conn, rng *rand.Rand) []byte {
	var heard bytes.Buffer
	br := bufio.NewReader(io.TeeReader(conn, &heard))
	for _, answer := range c.answers {
		r, err := http.ReadRequest(br)
		if err != nil {
			t.Error(err)
			return nil
		}
		if rng.IntN(4) > 0 { // or else the answer comes early
			_, err = io.Copy(io.Discard, r.Body)
		}
		done := make(chan error, 1)
		go func() { done <- write(conn, rand.New(rand.NewPCG(rng.Uint64(), 7)), answer) }()
		if _, rest := io.Copy(io.Discard, r.Body); err != nil || rest != nil {
			t.Error(err, rest)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	_, _ = io.Copy(io.Discard, br)
	return heard.Bytes()
}

// differ is the first place where two texts differ.
func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
