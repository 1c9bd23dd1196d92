package proxy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"mcp-tether/internal/http1"
	"mcp-tether/internal/testkit"
)

// much returns more than all buffers, pipes and sockets between two ends hold, and no multiple of any of their sizes.
func much() []byte {
	b := make([]byte, 9*pipeSize+12345)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(b)
	return b
}

// inChunks is a chunked body, whose chunks have 1 byte to about 2 pipes.
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

// spent returns how much of the budget bodies on their way use, and how much is used in all, in bytes.
func (s *scene) spent() (bulk, held int64) { return s.budget.bulk.Load(), s.budget.held.Load() }

// What follows a long body belongs to the next message, however the body was moved.
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
			testkit.Until(t, "an idle connection holds nothing", func() bool {
				_, held := s.spent()
				return held == 0
			})
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
	testkit.Until(t, "all is given back", func() bool {
		_, held := s.spent()
		return held == 0
	})
}

// Clients that do not read what they asked for hold pipes and wide buffers up to a bound. They keep no other client
// from a create.
func TestClientsThatDoNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		head, piece string
		size        int64 // of what holds a body on its way
	}{
		"until the end": {"HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", pipeSize), pipeSize},
		"chunks":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\nx\r\n", pipeSize/6), wideSize},
	} {
		t.Run(name, func(t *testing.T) { testStuckClients(t, c.head, c.piece, c.size) })
	}
}

func testStuckClients(t *testing.T, head, piece string, size int64) {
	clients := int(maxBulk/size) + 4
	s := newScene(t, func(e *peer) {
		line, _, _ := e.hearRequest()
		if line == "POST /containers/create" {
			e.say(reply(201, `{"Id":"c1"}`))
			return
		}
		// The last clients may be gone before their responses begin.
		_, err := io.WriteString(e, head)
		for err == nil {
			_, err = io.WriteString(e, piece)
		}
	})
	var stuck []*peer
	for range clients {
		c := s.client()
		c.say("GET /images/get HTTP/1.1\r\n\r\n")
		stuck = append(stuck, c)
	}
	testkit.Until(t, "as much is held as may be", func() bool {
		bulk, held := s.spent()
		if held > maxBulk+size+http1.MaxHead {
			t.Fatalf("%d bytes held, %d of them for bodies", held, bulk)
		}
		return bulk/size == maxBulk/size
	})
	c := s.client()
	c.say(post("/containers/create", "{}"))
	c.hear(reply(201, `{"Id":"c1"}`))
	for _, c := range stuck {
		_ = c.Close()
	}
	testkit.Until(t, "all is given back", func() bool {
		bulk, held := s.spent()
		return bulk == 0 && held == 0
	})
}

// If the budget or the number of descriptors allows no pipe, the bytes are copied.
func TestMoveWithoutAPipe(t *testing.T) {
	a, b := pair(t)
	c, d := pair(t)
	var all budget
	all.held.Store(maxHeld)
	if _, err := a.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	var p pipes
	if n, err := p.move(c, b, 1, &all); n != 0 || err != nil || all.held.Load() != maxHeld {
		t.Errorf("moved %d bytes, %v; %d bytes held", n, err, all.held.Load())
	}
	all.give(maxHeld)
	if n, err := p.move(c, b, 1, &all); n != 1 || err != nil || all.held.Load() != 0 {
		t.Errorf("moved %d bytes, %v", n, err)
	}
	if _, err := io.ReadFull(d, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	p.close()
}

// A body ends where its length says, whatever has come behind it.
func TestMoveStopsAtItsLimit(t *testing.T) {
	a, b := pair(t)
	c, d := pair(t)
	if _, err := a.Write(bytes.Repeat([]byte("x"), 3*bufferSize)); err != nil {
		t.Fatal(err)
	}
	var (
		p   pipes
		all budget
	)
	if n, err := p.move(c, b, bufferSize+1, &all); n != bufferSize+1 || err != nil {
		t.Errorf("moved %d bytes, %v", n, err)
	}
	_ = c.Close()
	if n, err := io.Copy(io.Discard, d); n != bufferSize+1 || err != nil {
		t.Errorf("%d bytes arrived, %v", n, err)
	}
	p.close()
}

// pair is both ends of a connection.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	s := &scene{T: t, dir: t.TempDir()}
	l := s.listen("proxy")
	near = s.client().Conn
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close(); _ = l.Close() })
	return near, far
}
