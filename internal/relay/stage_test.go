package relay

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// The messages of a session of 2025-11-25, and of one of 2026-07-28, which has no handshake.
const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}` + "\n"
	initializeResult = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` +
		`"serverInfo":{"name":"test","version":"1"}}}` + "\n"
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

	list   = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n"
	listed = `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}` + "\n"

	modernList = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":` +
		`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
)

// maxMessage is the limit of the relays under test, in bytes.
const maxMessage = 1000

// stage is a relay with the client and the servers that a test plays: it has the other ends of their streams.
type stage struct {
	t     *testing.T
	relay *Relay
	// toRelay and fromRelay are the client's ends; serverIn and serverOut are those of the last server.
	toRelay, fromRelay  int
	serverIn, serverOut int
}

// newStage makes a client with pipes, or with one pair of sockets as Node has it, and connects a first server.
func newStage(t *testing.T, sockets bool) *stage {
	t.Helper()
	s := &stage{t: t}
	var up, down [2]int
	if sockets {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		s.must(err)
		s.closeLater(pair[:]...)
		again, err := unix.FcntlInt(uintptr(pair[0]), unix.F_DUPFD_CLOEXEC, 0)
		s.must(err)
		s.closeLater(again)
		up, down = [2]int{pair[0], pair[1]}, [2]int{pair[1], again}
	} else {
		s.must(unix.Pipe2(up[:], unix.O_CLOEXEC))
		s.must(unix.Pipe2(down[:], unix.O_CLOEXEC))
		s.closeLater(up[0], up[1], down[0], down[1])
	}
	s.toRelay, s.fromRelay = up[1], down[0]
	s.relay = New(ReadEnd(up[0]), WriteEnd(down[1]), maxMessage, time.Now())
	s.connect()
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) closeLater(fds ...int) {
	s.t.Cleanup(func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	})
}

// connect gives the relay a server.
func (s *stage) connect() {
	s.t.Helper()
	var child proc.Child
	done, err := s.relay.Connect(&child)
	s.must(err)
	for _, end := range []struct {
		theirs int
		ours   *int
	}{{child.Stdin, &s.serverIn}, {child.Stdout, &s.serverOut}} {
		if flags, err := unix.FcntlInt(uintptr(end.theirs), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			s.t.Errorf("the server's stream has the flags %x, %v", flags, err)
		}
		*end.ours, err = unix.FcntlInt(uintptr(end.theirs), unix.F_DUPFD_CLOEXEC, 0)
		s.must(err)
		s.closeLater(*end.ours)
	}
	done()
}

// endServer closes the server's ends.
func (s *stage) endServer() {
	_, _ = unix.Close(s.serverIn), unix.Close(s.serverOut)
}

// settle has the relay work until it waits, or says that the client has written.
func (s *stage) settle() []Event {
	s.t.Helper()
	var events []Event
	for range 10000 {
		fds := s.relay.Polls()
		n, err := poll(fds[:])
		s.must(err)
		events = append(events, s.relay.Move(fds)...)
		if n == 0 || slices.Contains(events, Event{Kind: ClientWrote}) {
			return events
		}
	}
	s.t.Fatal("the relay never waits")
	return nil
}

// poll looks which streams are ready. The runtime's signals interrupt it now and then (signal(7)).
func poll(fds []unix.PollFd) (int, error) {
	for {
		if n, err := unix.Poll(fds, 0); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// write writes to a stream and has the relay pass it on. A user who has too many pipes gets small ones (pipe(7)): the test
// fails then, and does not wait.
func (s *stage) write(fd int, text string) []Event {
	s.t.Helper()
	s.must(unix.SetNonblock(fd, true))
	n, err := unix.Write(fd, []byte(text))
	if err != nil || n != len(text) {
		s.t.Fatalf("%d bytes of %d written: %v", n, len(text), err)
	}
	return s.settle()
}

// reads fails the test unless exactly the text is there to be read.
func (s *stage) reads(fd int, want string) {
	s.t.Helper()
	if got := s.read(fd); got != want {
		s.t.Errorf("read %q\nwant %q", got, want)
	}
}

// read gives what is there to be read, and "EOF" where a stream has ended.
func (s *stage) read(fd int) string {
	s.t.Helper()
	var all strings.Builder
	buf := make([]byte, 1<<20)
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := poll(ready); n == 0 || err != nil {
			s.must(err)
			return all.String()
		}
		n, err := unix.Read(fd, buf)
		s.must(err)
		if n == 0 {
			return all.String() + "EOF"
		}
		all.Write(buf[:n])
	}
}

// tells fails the test unless these are the events.
func (s *stage) tells(got []Event, want ...Event) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("events %v, want %v", got, want)
	}
}

// shakeHands has client and server agree on 2025-11-25.
func (s *stage) shakeHands() {
	s.t.Helper()
	s.tells(s.write(s.toRelay, initialize))
	s.tells(s.write(s.serverOut, initializeResult))
	s.tells(s.write(s.toRelay, initialized))
	s.reads(s.serverIn, initialize+initialized)
	s.reads(s.fromRelay, initializeResult)
}

// askModern has the client ask for something without a handshake, and the server answer.
func (s *stage) askModern() {
	s.t.Helper()
	s.tells(s.write(s.toRelay, modernList))
	s.tells(s.write(s.serverOut, listed))
	s.reads(s.serverIn, modernList)
	s.reads(s.fromRelay, listed)
}

// fallAsleep ends the server.
func (s *stage) fallAsleep() {
	s.t.Helper()
	if ok, why := s.relay.MaySleep(); !ok {
		s.t.Fatalf("the server may not sleep: %q", why)
	}
	s.relay.EndServer()
	s.reads(s.serverIn, "EOF")
	s.endServer()
	s.tells(s.settle())
	s.relay.Disconnect("")
}

// full fills a stream with empty lines to the last byte, and returns how much that took.
func (s *stage) full(fd int) int {
	s.t.Helper()
	s.must(unix.SetNonblock(fd, true))
	total := 0
	for _, size := range []int{4096, 1} {
		for {
			n, err := unix.Write(fd, bytes.Repeat([]byte("\n"), size))
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			s.must(err)
			total += n
		}
	}
	return total
}

// eachTransport runs a test with pipes and with sockets.
func eachTransport(t *testing.T, test func(s *stage)) {
	for name, sockets := range map[string]bool{"pipes": false, "sockets": true} {
		t.Run(name, func(t *testing.T) { test(newStage(t, sockets)) })
	}
}
