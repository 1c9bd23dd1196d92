package relay

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func capacity(t *testing.T, fd int) int {
	t.Helper()
	n, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fillUp writes whole buffers, has the pump pass on what it can, and returns what was written.
func fillUp(t *testing.T, p *pump, in, buffers int) (sent []byte) {
	t.Helper()
	for i := range buffers {
		b := bytes.Repeat([]byte{byte('a' + i)}, bufferSize)
		n, err := unix.Write(in, b)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, b[:n]...)
		p.turn(t)
		p.turn(t)
	}
	return sent
}

// A stream that fills the buffer twice in a row gets larger pipes and a larger buffer. When it gives them back, no byte
// on its way is lost.
func TestBusyPumpGrowsAndShrinks(t *testing.T) {
	p, in, out := pumpEnds(t)
	usual := capacity(t, in)
	sent := fillUp(t, p, in, 1)
	if p.grown || capacity(t, in) != usual {
		t.Fatal("it grows for one message")
	}
	got := make([]byte, 2*bulkBuffer+bufferSize)
	n, err := unix.Read(out, got)
	if err != nil || n != len(sent) {
		t.Fatalf("read %d bytes of %d: %v", n, len(sent), err)
	}
	sent = fillUp(t, p, in, bulkBuffer/bufferSize+2)
	if !p.grown || len(p.buf) != bulkBuffer || capacity(t, in) < bulkBuffer || capacity(t, out) < bulkBuffer {
		t.Fatalf("it has not grown: buffer %d, pipes %d and %d", len(p.buf), capacity(t, in), capacity(t, out))
	}
	if len(p.pending) == 0 {
		t.Fatal("nothing is on its way")
	}
	p.shrink()
	if p.buf != nil || capacity(t, in) != usual {
		t.Errorf("a buffer of %d bytes is left, a pipe of %d", len(p.buf), capacity(t, in))
	}
	all := 0
	for p.turn(t) || len(p.pending) > 0 {
		n, err := unix.Read(out, got[all:])
		if err != nil {
			t.Fatal(err)
		}
		all += n
	}
	if n, err := unix.Read(out, got[all:]); err == nil {
		all += n
	}
	if !bytes.Equal(got[:all], sent) {
		t.Errorf("%d bytes came of %d, or others", all, len(sent))
	}
}

// A user who may have no larger pipe keeps the one there is.
func TestPipeThatCannotGrow(t *testing.T) {
	null := devNull(t)
	if usual := growPipe(int(null.Fd()), bulkBuffer); usual != 0 {
		t.Errorf("no pipe, and it had %d bytes", usual)
	}
	_, in, _ := pumpEnds(t)
	s := Stream{fd: in, pipe: true}
	usual := capacity(t, in)
	s.grow(usual / 2)
	if s.usual != 0 || capacity(t, in) != usual {
		t.Errorf("a pipe was made smaller: %d bytes", capacity(t, in))
	}
	s.grow(1 << 30) // More than fs.pipe-max-size, which binds all but root.
	if capacity(t, in) < usual {
		t.Errorf("%d bytes", capacity(t, in))
	}
	s.shrink()
	if capacity(t, in) != usual {
		t.Errorf("%d bytes, want %d again", capacity(t, in), usual)
	}
}

// The relay says when to give back what a busy stream took, and afterwards has nothing left to give back.
func TestRelayShrinksAfterBulk(t *testing.T) {
	eachTransport(t, func(s *stage) {
		s.askModern()
		if !s.relay.ShrinkAt().IsZero() {
			t.Error("a quiet relay has something to give back")
		}
		text := string(bytes.Repeat([]byte("\n"), bufferSize))
		for range 2 {
			s.write(s.toRelay, text)
			s.reads(s.serverIn, text)
		}
		if s.relay.ShrinkAt().IsZero() || !s.relay.up.grown {
			t.Fatal("it has not grown")
		}
		due := s.relay.ShrinkAt()
		if s.settle(); s.relay.ShrinkAt() != due {
			t.Error("it is put off though nothing has passed")
		}
		s.relay.Shrink()
		if !s.relay.ShrinkAt().IsZero() || s.relay.up.buf != nil {
			t.Error("something is left")
		}
		s.askModern()
	})
}

// Nothing is kept of a long line that has waited for a server once that has it, and the relay says that memory can be given back.
func TestNothingIsKeptOfALongLine(t *testing.T) {
	s := newStage(t, false)
	s.relay.max = 8 * bulkBuffer
	s.shakeHands()
	s.fallAsleep()
	long := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"` + strings.Repeat("x", 4*bulkBuffer) + "\"}\n"
	for rest := long; rest != ""; {
		n := min(len(rest), bufferSize)
		s.write(s.toRelay, rest[:n])
		rest = rest[n:]
	}
	s.connect()
	s.relay.fromClient.Max = s.relay.max
	s.tells(s.relay.Restore())
	s.tells(s.write(s.serverOut, welcome), Event{Kind: Answered}, Event{Kind: Restored})
	got := ""
	for len(got) < len(initialize+initialized+long) {
		got += s.read(s.serverIn)
		s.settle()
	}
	if got != initialize+initialized+long {
		t.Error("not what was sent")
	}
	if s.relay.ShrinkAt().IsZero() || s.relay.up.pending != nil || s.relay.waiting.lines != nil || s.relay.nextOfClient.begun != nil {
		t.Errorf("to give back at %v, %d bytes are kept", s.relay.ShrinkAt(), cap(s.relay.up.pending))
	}
	if s.relay.Shrink(); !s.relay.ShrinkAt().IsZero() {
		t.Error("something is left to give back")
	}
}
