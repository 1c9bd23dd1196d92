package front

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// A client that has closed its end, and does not read what the last server wrote, does not hold up the end of the session
// with a message that it has still sent. If it reads in time, the message is for the next server.
func TestAClientThatDoesNotReadKeepsNoSession(t *testing.T) {
	const asked = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	for name, before := range map[string]fall{"asleep": nap, "crashed": crash} {
		for _, reads := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reads %v", name, reads), func(t *testing.T) {
				f, toRelay, fromRelay := withClient(t, falling)
				f.fall = before
				f.o.EOFGrace, f.o.EndLimit = time.Hour, time.Hour
				fill(t, f, fromRelay)
				f.step(onGone)
				if _, err := unix.Write(toRelay, []byte(asked)); err != nil {
					t.Fatal(err)
				}
				copyOnce(f)
				f.onClientClosed()
				deadline := f.due()
				if f.phase != asleep || f.cause != session.NoCause || deadline.IsZero() {
					t.Fatalf("phase %v, cause %v, due at %v", f.phase, f.cause, deadline)
				}
				if !reads {
					f.onTime(deadline)
					if f.phase != over || f.cause != session.CauseStdin {
						t.Errorf("phase %v, cause %v", f.phase, f.cause)
					}
					return
				}
				// It waits for the next attempt to start a server, which comes soon.
				f.clock.retryAt = time.Now().Add(shortPause)
				readUntil(t, f, fromRelay, "last words\n")
				if f.phase != asleep || f.cause != session.NoCause || !f.due().Equal(f.clock.retryAt) {
					t.Fatalf("phase %v, cause %v, due at %v", f.phase, f.cause, f.due())
				}
				f.onTime(deadline)
				awaitBackend(t, f)
				f.flush()
				readUntil(t, f, fromRelay, "exited with code 127")
				if f.phase != over || f.cause != session.CauseStdin {
					t.Errorf("in the end phase %v, cause %v", f.phase, f.cause)
				}
			})
		}
	}
}

// awaitBackend waits for the end of the backend, which is this test program: it fails at once, see TestMain.
func awaitBackend(t *testing.T, f *front) {
	t.Helper()
	testkit.Until(t, "the end of the backend", func() bool {
		f.onChild()
		return f.back.pid == 0
	})
}

// fill connects a server that has ended, and whose last words find the client's stream full.
func fill(t *testing.T, f *front, fromRelay int) {
	t.Helper()
	var child proc.Child
	closeTheirs, err := f.relay.Connect(&child)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTheirs()
	if err := unix.SetNonblock(fromRelay, true); err != nil {
		t.Fatal(err)
	}
	// No pipe has less room than a page, however many its user has (pipe(7)).
	for range 1000 {
		if _, err := unix.Write(child.Stdout, []byte(strings.Repeat("\n", 4000)+"last words\n")); err != nil {
			t.Fatal(err)
		}
		copyOnce(f)
		if copyOnce(f); !f.relay.Drained() {
			return
		}
	}
	t.Fatal("the client's stream is never full")
}

// copyOnce is what the loop does for the relay, without a wait.
func copyOnce(f *front) {
	fds := f.relay.Polls()
	proc.Poll(fds[:], 0)
	f.onRelay(f.relay.Move(fds))
}

// readUntil has the client read all that the relay has for it. What comes last must have the text in it.
func readUntil(t *testing.T, f *front, fromRelay int, text string) {
	t.Helper()
	var last []byte
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fromRelay, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 && f.relay.Drained() {
			break
		}
		if n > 0 {
			last = append(last[max(0, len(last)-200):], buf[:n]...)
		}
		copyOnce(f)
	}
	if !strings.Contains(string(last), text) {
		t.Errorf("read %q at the end, want %q", last[max(0, len(last)-200):], text)
	}
}

// The pause after a failed wake grows although there is no handshake, so that messages pass before anything has failed. It
// begins anew once a server has written something.
func TestPauseGrowsWithoutAHandshake(t *testing.T) {
	f, _, _ := withClient(t, waking)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		f.step(onUnasked)
		f.step(onGone)
		if f.phase != asleep || f.pauses.between != want {
			t.Errorf("phase %v, pause %v, want %v", f.phase, f.pauses.between, want)
		}
		f.phase = waking
	}
	f.step(onUnasked)
	f.onRelay([]relay.Event{{Kind: relay.Answered}})
	if f.phase != awake || f.pauses.between != 0 {
		t.Errorf("phase %v, pause %v", f.phase, f.pauses.between)
	}
}

// In a long pause a call is answered at once, and the next try is made for it. Without a call no try is made. If the client has
// closed its end, the answer is the last word.
func TestCallsAreAnsweredInALongPause(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		calls bool
	}{{30 * time.Second, true}, {shortPause, true}, {30 * time.Second, false}} {
		f, toRelay, fromRelay := withClient(t, waking)
		f.o.EOFGrace = time.Hour
		if err := unix.SetNonblock(fromRelay, true); err != nil {
			t.Fatal(err)
		}
		f.pauses.why, f.pauses.between = "no database", c.pause/2
		f.step(onGone)
		refused := c.pause > shortPause && c.calls
		if c.calls {
			_, _ = unix.Write(toRelay, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`+"\n"))
			copyOnce(f)
			copyOnce(f)
		}
		buf := make([]byte, 1000)
		n, _ := unix.Read(fromRelay, buf)
		if got := string(buf[:max(n, 0)]); strings.Contains(got, "no database; next try in 30 s") != refused || f.phase != asleep {
			t.Errorf("%+v: phase %v, the client gets %q", c, f.phase, got)
		}
		if f.onTime(f.clock.retryAt); (f.phase == asleep) == c.calls {
			t.Errorf("%+v: phase %v in the end", c, f.phase)
		}
		if c.calls {
			awaitBackend(t, f)
			continue
		}
		_, _ = unix.Write(toRelay, []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`+"\n"))
		f.clock.retryAt = time.Now().Add(time.Hour)
		copyOnce(f)
		if f.onClientClosed(); f.cause != session.CauseStdin {
			t.Errorf("%+v: it goes on after the client's end", c)
		}
	}
}

// The client's stream may end without a word from poll(2): a file, or a stream that cannot be read, with bytes in it. Whatever
// the session does just then, it ends with the server, or at once where there is none. Nor has a server crashed that ends then.
// Seen to wait for ever, asleep, for a server to send those bytes to.
func TestTheEndThatPollDoesNotTell(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	if err := os.WriteFile(full, []byte("unread"), 0o600); err != nil {
		t.Fatal(err)
	}
	streams := map[string]func() (*os.File, error){
		"empty":      func() (*os.File, error) { return os.Open(os.DevNull) },
		"unreadable": func() (*os.File, error) { return os.OpenFile(full, os.O_WRONLY, 0) },
	}
	for name, open := range streams {
		for before := awake; before < over; before++ {
			t.Run(fmt.Sprintf("%s, phase %v", name, before), func(t *testing.T) {
				file, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				f, _, _ := withClient(t, before)
				f.o.RestartOnCrash = true
				f.relay = relay.New(relay.ReadEnd(int(file.Fd())), relay.WriteEnd(int(file.Fd())), roomy, time.Now())
				copyOnce(f)
				if before != asleep {
					f.onBackendEnd(0)
				}
				if f.phase != over || f.cause != session.CauseStdin || !f.done {
					t.Errorf("phase %v, cause %v", f.phase, f.cause)
				}
			})
		}
	}
}

// Nor is such an end forgotten while the server wakes.
func TestTheEndDuringAWake(t *testing.T) {
	f, _, _ := withClient(t, waking)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	f.relay = relay.New(relay.ReadEnd(int(null.Fd())), relay.WriteEnd(int(null.Fd())), roomy, time.Now())
	f.back.pid = os.Getpid() // Only looked at.
	copyOnce(f)
	if f.phase != waking || f.cause != session.NoCause {
		t.Errorf("phase %v, cause %v before the server is awake", f.phase, f.cause)
	}
	f.step(onRestored)
	if f.phase != over || f.cause != session.CauseStdin || f.done {
		t.Errorf("phase %v, cause %v, done %t", f.phase, f.cause, f.done)
	}
}

// withClient is a front in a phase, and the client's ends of its streams.
func withClient(t *testing.T, p phase) (f *front, toRelay, fromRelay int) {
	t.Helper()
	var up, down [2]int
	for _, pipe := range []*[2]int{&up, &down} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) })
	}
	f = &front{behind: behind{phase: p}, relay: relay.New(relay.ReadEnd(up[0]), relay.WriteEnd(down[1]), roomy, time.Now())}
	f.o.Program = os.Args[0]
	return f, up[1], down[0]
}

// TestMain is a backend that fails at once, where a front of a test has started it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == waiting.RoleSession {
		os.Exit(127)
	}
	os.Exit(m.Run())
}
