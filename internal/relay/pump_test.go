package relay

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// pumpEnds makes a pump and its far ends: what is written to in comes out of out.
func pumpEnds(t *testing.T) (p *pump, in, out int) {
	t.Helper()
	var a, b [2]int
	for _, x := range []*[2]int{&a, &b} {
		if err := unix.Pipe2(x[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(x[0]); unix.Close(x[1]) })
	}
	p = &pump{from: Stream{fd: a[0], pipe: true}, to: Stream{fd: b[1], pipe: true}, tap: func(b []byte) []byte { return b }}
	return p, a[1], b[0]
}

// turn lets the pump do what poll says that it can.
func (p *pump) turn(t *testing.T) bool {
	t.Helper()
	fds := []unix.PollFd{p.interest()}
	if _, err := poll(fds); err != nil {
		t.Fatal(err)
	}
	p.move(fds[0].Revents)
	return fds[0].Revents != 0
}

// Bytes come out as they went in, in order, whatever the sizes and however slow the reader, also when the tap passes on
// something of its own.
func TestPumpPassesBytesUnchanged(t *testing.T) {
	for name, change := range map[string]func(*pump){
		"as they are": func(*pump) {},
		"copies":      func(p *pump) { p.tap = bytes.Clone },
		"puts in the first byte": func(p *pump) {
			p.tap = func(b []byte) []byte { p.put(b[:1]); return b[1:] }
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, in, out := pumpEnds(t)
			change(p)
			testPump(t, p, in, out)
		})
	}
}

func testPump(t *testing.T, p *pump, in, out int) {
	rnd := rand.New(rand.NewPCG(testkit.Seed(t), 1))
	var sent, got []byte
	for len(sent) < 4<<20 || len(got) < len(sent) {
		if len(sent) < 4<<20 {
			chunk := make([]byte, rnd.IntN(100<<10)+1)
			for i := range chunk {
				chunk[i] = byte(rnd.Uint32())
			}
			if n, err := unix.Write(in, chunk); err == nil {
				sent = append(sent, chunk[:n]...)
			}
		}
		p.turn(t)
		buf := make([]byte, rnd.IntN(50<<10)+1)
		if n, err := unix.Read(out, buf); err == nil {
			got = append(got, buf[:n]...)
		}
	}
	if !bytes.Equal(sent, got) {
		t.Error("not what was sent")
	}
}

// Text that is put in while the buffer is half written comes after it.
func TestPumpPutsTextBehindTheBuffer(t *testing.T) {
	p, in, out := pumpEnds(t)
	p.grown = true // Larger pipes would take more.
	var sent []byte
	for len(p.pending) == 0 {
		text := bytes.Repeat([]byte("0123456789abcdef"), 1000)
		n, err := unix.Write(in, text)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, text[:n]...)
		p.turn(t)
	}
	p.put([]byte("the end"))
	var got []byte
	for len(got) < len(sent)+len("the end") {
		buf := make([]byte, 5000)
		n, err := unix.Read(out, buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
		p.turn(t)
	}
	if string(got) != string(sent)+"the end" {
		t.Error("not what was sent, and the end")
	}
}

// Back-pressure: with a reader that does not read, the pump holds one buffer and takes no more.
func TestPumpHoldsOneBufferAtMost(t *testing.T) {
	p, in, _ := pumpEnds(t)
	taken := 0
	for range 100 {
		n, _ := unix.Write(in, make([]byte, 16<<10))
		taken += max(n, 0)
		p.turn(t)
	}
	// Two pipes and the buffer.
	if limit := 2*bufferSize + bufferSize; taken > limit {
		t.Errorf("%d bytes were taken, more than %d", taken, limit)
	}
	if p.interest().Events != unix.POLLOUT {
		t.Error("it does not wait for its reader")
	}
}

// Half-close: the end is passed on after the last byte, and what we put in ourselves comes before it.
func TestPumpPassesTheEndOn(t *testing.T) {
	p, in, out := pumpEnds(t)
	if _, err := unix.Write(in, []byte("no newline at the end")); err != nil {
		t.Fatal(err)
	}
	unix.Close(in)
	for !p.done() {
		if !p.turn(t) {
			t.Fatal("nothing to do, and not done")
		}
	}
	buf := make([]byte, 100)
	n, err := unix.Read(out, buf)
	if err != nil || string(buf[:n]) != "no newline at the end" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

// A far end that takes no more ends the pump, without SIGPIPE: the supervisor ignores it.
func TestPumpEndsWithItsReader(t *testing.T) {
	p, in, out := pumpEnds(t)
	unix.Close(out)
	if _, err := unix.Write(in, []byte("x")); err != nil {
		t.Fatal(err)
	}
	p.turn(t)
	if !p.broken {
		t.Error("it goes on")
	}
}

func TestPumpPutsTextBehindWhatWaits(t *testing.T) {
	p, in, out := pumpEnds(t)
	if _, err := unix.Write(in, []byte("first ")); err != nil {
		t.Fatal(err)
	}
	p.fill()
	p.put([]byte("second"))
	p.drain()
	buf := make([]byte, 100)
	if n, _ := unix.Read(out, buf); string(buf[:max(n, 0)]) != "first second" {
		t.Errorf("read %q", buf[:max(n, 0)])
	}
}
