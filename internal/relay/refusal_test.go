package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/mcp"
)

const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}` + "\n"

func request(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"tools/call","id":%s}`+"\n", id)
}

func refusal(ids ...string) string {
	var all strings.Builder
	for _, id := range ids {
		all.Write(mcp.ErrorReply(id, mcp.CodeInternal, "no server"))
	}
	return all.String()
}

// Every request that waits is answered with an error, in order, and what needs no answer is dropped. The next message is
// for the next try.
func TestRefuse(t *testing.T) {
	eachTransport(t, func(s *stage) {
		s.shakeHands()
		s.fallAsleep()
		s.tells(s.write(s.toRelay, request("7")+initialized+request(`"x"`)+"no JSON\n"), Event{Kind: ClientWrote})
		s.tells(s.relay.Refuse("no server"), Event{Dropped, ""})
		s.tells(s.settle())
		s.reads(s.fromRelay, refusal("7", `"x"`))
		s.tells(s.write(s.toRelay, request("8")), Event{Kind: ClientWrote})
	})
}

// A server without a handshake gets messages at once, and may end without having answered any. They are answered, the
// half one as well once its id has come, and no server gets one of them again.
func TestRefuseWhatWasPassedOn(t *testing.T) {
	s := newStage(t, false)
	s.askModern()
	s.fallAsleep()
	s.tells(s.write(s.toRelay, request("7")), Event{Kind: ClientWrote})
	s.connect()
	s.tells(s.relay.Restore(), Event{Kind: Unasked})
	s.tells(s.write(s.toRelay, request("8")+request("9")[:20]))
	s.reads(s.serverIn, request("7")+request("8"))
	s.endServer()
	s.tells(s.settle(), Event{Kind: ServerClosed})
	s.relay.Disconnect("no server")
	s.tells(s.relay.Refuse("no server"))
	s.reads(s.fromRelay, refusal("7", "8"))
	s.tells(s.write(s.toRelay, request("9")[20:]), Event{Kind: ClientWrote})
	s.tells(s.relay.Refuse("no server"))
	s.reads(s.fromRelay, refusal("9"))
	s.tells(s.write(s.toRelay, request("10")), Event{Kind: ClientWrote})
	s.connect()
	s.relay.Restore()
	s.settle()
	s.reads(s.serverIn, request("10"))
	if !s.relay.Flush("no server", false, 0) {
		t.Error("the client has not got everything")
	}
	s.reads(s.fromRelay, refusal("10"))
}

// A client that writes without end, and reads nothing, gets one round of answers and no more.
func TestRefuseIsBounded(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	s.fallAsleep()
	s.full(s.toRelay)
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		many := []byte(strings.Repeat(request("8"), 2000))
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = unix.Write(s.toRelay, many)
			}
		}
	}()
	refused := make(chan bool)
	go func() {
		s.relay.Refuse("no server")
		close(refused)
	}()
	select {
	case <-refused:
	case <-time.After(testkit.Patience):
		t.Error("the refusal does not end as long as the client writes")
	}
	close(stop)
	<-stopped
	<-refused
}

// What a client is owed at the end comes after all that the server has written.
func TestFlushPaysDebts(t *testing.T) {
	for name, c := range map[string]struct {
		output, want, owed string
	}{
		"nothing owed":      {"", "", ""},
		"answers":           {serverSays, serverSays + refusal("7", "8"), "no server"},
		"unread":            {"", refusal("7", "8", "null"), "no server"},
		"after half a line": {serverSays[:20], refusal("7", "8"), "no server"},
		"half a line":       {serverSays[:20], serverSays[:20], ""},
		"all but the newline": {
			strings.TrimSuffix(serverSays, "\n"), serverSays + refusal("7", "8"), "no server",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.shakeHands()
			s.write(s.toRelay, request("7")+request("8"))
			s.relay.Finish()
			if _, err := unix.Write(s.serverOut, []byte(c.output)); err != nil {
				t.Fatal(err)
			}
			s.endServer()
			if !s.relay.Flush(c.owed, name == "unread", testkit.Patience) {
				t.Error("the client has not got everything")
			}
			s.reads(s.fromRelay, c.want)
		})
	}
}

// Where the lines of a server are judged, half of one does not reach the client at the end of the session: it may be half
// of an answer to what was repeated, or of a request that nobody could answer.
func TestFlushDropsHalfALine(t *testing.T) {
	half := func(line string) string { return line[:len(line)/2] }
	ends := func(s *stage) { s.relay.EndServer() }
	wakes := func(s *stage) {
		s.fallAsleep()
		s.write(s.toRelay, call)
		s.connect()
		s.relay.Restore()
	}
	for name, c := range map[string]struct {
		before func(*stage)
		output string
	}{
		"of a repeated answer":              {wakes, half(initializeResult)},
		"a repeated answer but the newline": {wakes, strings.TrimSuffix(initializeResult, "\n")},
		"of a request":                      {ends, half(serverAsks)},
		"a request but the newline":         {ends, strings.TrimSuffix(serverAsks, "\n")},
		"of a notification":                 {ends, half(serverSays)},
		"of noise":                          {ends, "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.shakeHands()
			c.before(s)
			s.write(s.serverOut, c.output)
			s.relay.Finish()
			if !s.relay.Flush("", false, testkit.Patience) {
				t.Error("the client has not got everything")
			}
			s.reads(s.fromRelay, "")
		})
	}
}

// A client that reads slowly gets all in time. One that does not read is waited for to the limit, and one that is gone
// not at all.
func TestFlushIsBounded(t *testing.T) {
	eachTransport(t, func(s *stage) {
		s.shakeHands()
		s.write(s.toRelay, request("7"))
		s.relay.Finish()
		s.full(s.relay.client.Out.fd)
		if s.relay.Flush("no server", false, 0) {
			t.Error("the client's stream is full, and it is said to have everything")
		}
		done := make(chan bool)
		go func() {
			defer close(done)
			var all []byte
			for buf := make([]byte, 1000); !strings.HasSuffix(string(all), refusal("7")); {
				n, err := unix.Read(s.fromRelay, buf)
				if errors.Is(err, unix.EINTR) {
					continue
				}
				if n <= 0 || err != nil {
					return
				}
				all = append(all[max(0, len(all)-1000):], buf[:n]...)
			}
		}()
		if !s.relay.Flush("", false, testkit.Patience) {
			t.Error("the client has read everything")
		}
		<-done // or it would read from the next test's descriptor
	})
	t.Run("gone", func(t *testing.T) {
		s := newStage(t, false)
		s.shakeHands()
		s.full(s.relay.client.Out.fd)
		s.write(s.toRelay, request("7"))
		s.must(unix.Close(s.fromRelay))
		// It returns at once, or the test never ends.
		if s.relay.Flush("no server", false, 24*time.Hour) {
			t.Error("a client that is gone is said to have everything")
		}
	})
}

// The limit of open files can be lowered from outside until poll(2) refuses the two descriptors. The wait ends all the same.
func TestFlushIsBoundedWithoutPoll(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	s.full(s.relay.client.Out.fd)
	_, err := unix.Write(s.serverOut, []byte(listed))
	s.must(err)
	var before unix.Rlimit
	s.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	s.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: before.Max}))
	done := make(chan bool, 1)
	go func() { done <- s.relay.Flush("", false, 50*time.Millisecond) }()
	defer func() { s.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }()
	select {
	case flushed := <-done:
		if flushed {
			t.Error("a client that reads nothing has taken everything")
		}
	case <-time.After(testkit.Patience):
		t.Fatal("the wait never ends")
	}
}
