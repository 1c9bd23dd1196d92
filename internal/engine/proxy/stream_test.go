package proxy

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"mcp-tether/internal/testkit"
)

// much returns more than all buffers and sockets between two ends hold, and no multiple of any of their sizes.
func much() []byte {
	b := make([]byte, 9<<20+12345)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(b)
	return b
}

// inChunks is a chunked body, whose chunks have 1 byte to about 2 MiB.
func inChunks(data []byte) (wire []byte) {
	source := rand.New(rand.NewPCG(1, 2))
	for len(data) > 0 {
		n := min(1<<source.IntN(22)+source.IntN(9), len(data))
		wire = fmt.Appendf(wire, "%x;n=%d\r\n%s\r\n", n, n, data[:n])
		data = data[n:]
	}
	return append(wire, "0\r\nLast: 1\r\n\r\n"...)
}

// hearSum reads n bytes, and returns their hash.
func (p *peer) hearSum(n int) (sum [sha256.Size]byte) {
	p.t.Helper()
	h := sha256.New()
	if m, err := io.CopyN(h, p.br, int64(n)); err != nil {
		p.t.Errorf("heard %d of %d bytes: %v", m, n, err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// What follows a long body belongs to the next message.
func TestLongBodies(t *testing.T) {
	data := much()
	for name, wire := range map[string]struct {
		field string
		body  []byte
	}{
		"length": {fmt.Sprintf("Content-Length: %d", len(data)), data},
		"chunk":  {"Transfer-Encoding: chunked", fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(data), data)},
		"chunks": {"Transfer-Encoding: chunked", inChunks(data)},
	} {
		t.Run(name, func(t *testing.T) {
			sum := sha256.Sum256(wire.body)
			request := "POST /images/load HTTP/1.1\r\n" + wire.field + "\r\n\r\n"
			answer := "HTTP/1.1 200 OK\r\n" + wire.field + "\r\n\r\n"
			s := newScene(t, func(e *peer) {
				e.hear(request)
				if e.hearSum(len(wire.body)) != sum {
					t.Error("the engine read something else")
				}
				e.say(answer + string(wire.body))
				e.hear("GET /_ping HTTP/1.1\r\n\r\n")
				e.say(reply(200, "OK"))
			})
			c := s.client()
			c.say(request + string(wire.body) + "GET /_ping HTTP/1.1\r\n\r\n")
			c.hear(answer)
			if c.hearSum(len(wire.body)) != sum {
				t.Error("the client read something else")
			}
			c.hear(reply(200, "OK"))
			testkit.Until(t, "an idle connection holds nothing", func() bool { return s.budget.held.Load() == 0 })
		})
	}
}

// Both directions of a stream at once, each with its own end.
func TestLongStreams(t *testing.T) {
	data := much()
	sum := sha256.Sum256(data)
	talk := func(p *peer) {
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := p.Write(data); err != nil {
				t.Error(err)
			}
			p.hangUp()
		})
		if p.hearSum(len(data)) != sum {
			t.Error("something else arrived")
		}
		p.hearEnd()
		both.Wait()
	}
	const request, answer = "POST /containers/c/attach HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n", "HTTP/1.1 101 UPGRADED\r\n\r\n"
	heard := make(chan struct{})
	s := newScene(t, func(e *peer) {
		defer close(heard)
		e.hear(request)
		e.say(answer)
		talk(e)
	})
	c := s.client()
	c.say(request)
	c.hear(answer)
	talk(c)
	<-heard
}
