package relay

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// The flags of a descriptor that others share are left alone: a relay that set O_NONBLOCK would set it for the gateway.
func TestStreamsLeaveFlagsAlone(t *testing.T) {
	r, w := testkit.Pipe(t)
	defer r.Close()
	defer w.Close()
	before := [2]int{flags(t, r.Fd()), flags(t, w.Fd())}
	in, out := ReadEnd(int(r.Fd())), WriteEnd(int(w.Fd()))
	if after := [2]int{flags(t, r.Fd()), flags(t, w.Fd())}; after != before {
		t.Errorf("flags %x, before %x", after, before)
	}
	if flags(t, uintptr(out.fd))&unix.O_NONBLOCK == 0 || out.most != 0 {
		t.Error("a write may block")
	}
	again := uintptr(out.fd)
	in.Close()
	out.Close()
	if _, err := unix.FcntlInt(again, unix.F_GETFL, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("our own descriptor is still open: %v", err)
	}
	if _, err := w.Write([]byte("x")); err != nil {
		t.Errorf("the caller's own descriptor is closed: %v", err)
	}
	if in.fd >= 0 || out.fd >= 0 {
		t.Error("a closed stream has a descriptor")
	}
}

func flags(t *testing.T, fd uintptr) int {
	t.Helper()
	n, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A descriptor that was closed when we were started is no stream, and ends nothing.
func TestStreamOfNothing(t *testing.T) {
	for _, s := range []Stream{ReadEnd(-1), WriteEnd(-1), ReadEnd(1 << 20)} {
		if s.fd >= 0 {
			t.Errorf("%+v", s)
		}
	}
}

// A pipe that cannot be opened again is written to in pieces for which poll(2) promises room.
func TestStreamWritesInPieces(t *testing.T) {
	s := Stream{most: pipeBuf, pipe: true}
	r, w := testkit.Pipe(t)
	defer r.Close()
	defer w.Close()
	s.fd = int(w.Fd())
	if n, end := s.Write(make([]byte, 3*pipeBuf)); n != pipeBuf || end {
		t.Errorf("%d bytes, %t", n, end)
	}
}

// Nor does any other write to it, such as the answer to a ping while there is no server: nobody has asked poll(2) before.
func TestStreamThatCouldBlockIsNotWrittenToWhenFull(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	s.fallAsleep()
	out := &s.relay.client.Out
	s.full(out.fd)
	s.must(unix.SetNonblock(out.fd, false))
	out.most = pipeBuf
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = unix.Write(s.toRelay, []byte(ping))
		fds := s.relay.Polls()
		_, _ = poll(fds[:])
		s.relay.Move(fds)
	}()
	select {
	case <-done:
	case <-time.After(testkit.Patience):
		t.Fatal("the relay waits for its client")
	}
	s.read(s.fromRelay)
	s.tells(s.settle())
	s.reads(s.fromRelay, pong)
}

// A full stream takes nothing and has not ended; one without a reader has.
func TestStreamFullAndBroken(t *testing.T) {
	for name, make2 := range map[string]func(t *testing.T) (r, w int){
		"pipe": func(t *testing.T) (int, int) {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
				t.Fatal(err)
			}
			return p[0], p[1]
		},
		"socket": func(t *testing.T) (int, int) {
			p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			return p[0], p[1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := make2(t)
			in, out := ReadEnd(r), WriteEnd(w)
			defer unix.Close(w)
			defer out.Close()
			if n, end := in.Read(make([]byte, 10)); n != 0 || end {
				t.Errorf("read of an empty stream: %d, %t", n, end)
			}
			for n := 1; n > 0; {
				var end bool
				if n, end = out.Write(make([]byte, 4096)); end {
					t.Fatal("a full stream is said to have ended")
				}
			}
			unix.Close(r)
			if n, end := out.Write([]byte("x")); n != 0 || !end {
				t.Errorf("write without a reader: %d, %t", n, end)
			}
		})
	}
	if _, end := ReadEnd(int(devNull(t).Fd())).Read(make([]byte, 1)); !end {
		t.Error("the end of a file is not seen")
	}
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
