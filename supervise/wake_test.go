package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/teardown"
)

// A woken server may end before it has proved itself, while other members of its tree still live. Nothing that comes
// after that makes it awake: neither what those members write, nor the end of the wait for their rest. Otherwise the
// session would end with the tree, and the requests that wait would have no answer.
func TestAServerThatEndsWhileItWakesHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		before phase
		late   phaseEvent
	}{
		"restored": {waking, onRestored},
		"unasked":  {waking, onUnasked},
		"answered": {trying, onAnswered},
	} {
		t.Run(name, func(t *testing.T) {
			s := woken(t, c.before)
			s.onServerExit()
			s.changePhase(c.late)
			if s.hib.phase != failing || s.cause != noCause || s.hib.endsWithTree() {
				t.Errorf("phase %v, cause %v", s.hib.phase, s.cause)
			}
		})
	}
}

// woken is a session with a relay, and a tree without processes.
func woken(t *testing.T, p phase) *Session {
	t.Helper()
	s, _, _ := withClient(t, p)
	return s
}

// withClient is the same with the client's ends of the streams.
func withClient(t *testing.T, p phase) (s *Session, toRelay, fromRelay int) {
	t.Helper()
	var up, down [2]int
	for _, pipe := range []*[2]int{&up, &down} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) })
	}
	s = &Session{}
	s.hand.Mailbox = -1
	s.left.scope.Root = os.Getpid()
	s.hib = &hibernation{phase: p, relay: relay.New(relay.ReadEnd(up[0]), relay.WriteEnd(down[1]), roomy, time.Now())}
	s.newTree()
	return s, up[1], down[0]
}

// What earlier trees have left gets a teardown of its own, also if the session ends at the moment when its server has
// fallen asleep.
func TestStraysAreEndedBeforeTheSession(t *testing.T) {
	s := woken(t, falling)
	s.sink, _ = openSink("")
	s.opts = Defaults()
	s.hib.closing, s.left.strays = true, true
	first := s.tree
	first.machine.State = teardown.Done
	s.loop()
	if s.tree == nil || s.tree == first || s.tree.machine.State != teardown.Done || s.hib.phase != over {
		t.Errorf("the session is over, phase %v, with the tree %+v", s.hib.phase, s.tree)
	}
}

// What could not be listed when its server fell asleep is looked for again at the end of the session, whatever has become
// of the containers.
func TestWhatCannotBeListedIsNotForgotten(t *testing.T) {
	for name, gone := range map[string]error{"containers removed": nil, "containers left": errNotRemoved} {
		t.Run(name, func(t *testing.T) {
			child := exec.Command("cat")
			in, err := child.StdinPipe()
			if err == nil {
				err = child.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { in.Close(); _ = child.Wait() }()
			s := woken(t, asleep)
			s.tree.engine = &engine{listener: -1, outcome: make(chan removal, 1)}
			s.tree.engine.outcome <- removal{err: gone}
			var files unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
				t.Fatal(err)
			}
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: files.Max}); err != nil {
				t.Fatal(err)
			}
			s.forgetTree()
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
				t.Fatal(err)
			}
			if !s.left.strays || s.left.containers != (gone != nil) {
				t.Errorf("left are strays %v, containers %v", s.left.strays, s.left.containers)
			}
		})
	}
}

// A client that has closed its end, and does not read what the last server wrote, does not hold up the end of the session
// with a message that it has still sent. If it reads in time, the message is for the next server.
func TestAClientThatDoesNotReadKeepsNoSession(t *testing.T) {
	const asked = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	for name, before := range map[string]phase{"asleep": falling, "crashed": crashing} {
		for _, reads := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reads %v", name, reads), func(t *testing.T) {
				s, toRelay, fromRelay := withClient(t, before)
				s.opts.Command, s.opts.EOFGrace = []string{"/nonexistent/server"}, time.Hour
				fill(t, s, fromRelay)
				s.changePhase(onTreeGone)
				if _, err := unix.Write(toRelay, []byte(asked)); err != nil {
					t.Fatal(err)
				}
				copyOnce(s)
				s.onStdinClosed()
				deadline := s.hib.due()
				if s.hib.phase != asleep || s.cause != noCause || deadline.IsZero() {
					t.Fatalf("phase %v, cause %v, due at %v", s.hib.phase, s.cause, deadline)
				}
				if !reads {
					s.onHibernateTime(deadline)
					if s.hib.phase != over || s.cause != causeStdin {
						t.Errorf("phase %v, cause %v", s.hib.phase, s.cause)
					}
					return
				}
				// It waits for the next attempt to start a server, which comes later.
				s.hib.retryAt = deadline.Add(time.Hour)
				readUntil(t, s, fromRelay, "last words\n")
				s.onHibernateTime(deadline)
				if s.hib.phase != asleep || s.cause != noCause || !s.hib.due().Equal(s.hib.retryAt) {
					t.Fatalf("phase %v, cause %v, due at %v", s.hib.phase, s.cause, s.hib.due())
				}
				s.onHibernateTime(s.hib.retryAt)
				readUntil(t, s, fromRelay, "/nonexistent/server")
				if s.hib.phase != over || s.cause != causeStdin {
					t.Errorf("in the end phase %v, cause %v", s.hib.phase, s.cause)
				}
			})
		}
	}
}

// fill connects a server that has ended, and whose last words find the client's stream full.
func fill(t *testing.T, s *Session, fromRelay int) {
	t.Helper()
	var child proc.Child
	closeTheirs, err := s.hib.relay.Connect(&child)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTheirs()
	if err := unix.SetNonblock(fromRelay, true); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := unix.Write(child.Stdout, []byte(strings.Repeat("\n", 16<<10)+"last words\n")); err != nil {
			t.Fatal(err)
		}
		copyOnce(s)
		if copyOnce(s); !s.hib.relay.Drained() {
			return
		}
	}
	t.Fatal("the client's stream is never full")
}

// copyOnce is one turn of the loop, which does not wait.
func copyOnce(s *Session) {
	fds := s.hib.relay.Polls()
	proc.Poll(fds[:], 0)
	s.onRelay(s.hib.relay.Move(fds))
}

// readUntil has the client read all that the relay has for it. What comes last must have the text in it.
func readUntil(t *testing.T, s *Session, fromRelay int, text string) {
	t.Helper()
	var last []byte
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fromRelay, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 && s.hib.relay.Drained() {
			break
		}
		if n > 0 {
			last = append(last[max(0, len(last)-200):], buf[:n]...)
		}
		copyOnce(s)
	}
	if !strings.Contains(string(last), text) {
		t.Errorf("read %q at the end, want %q", last[max(0, len(last)-200):], text)
	}
}

// The pause after a failed wake grows although there is no handshake, so that messages pass before anything has failed. It
// begins anew once a server has written something.
func TestPauseGrowsWithoutAHandshake(t *testing.T) {
	s := woken(t, waking)
	for _, want := range []time.Duration{firstPause, 2 * firstPause, 4 * firstPause} {
		s.changePhase(onUnasked)
		s.changePhase(onTreeGone)
		if s.hib.phase != asleep || s.hib.pause != want {
			t.Errorf("phase %v, pause %v, want %v", s.hib.phase, s.hib.pause, want)
		}
		s.hib.phase = waking
		s.newTree()
	}
	s.changePhase(onUnasked)
	s.onRelay([]relay.Event{{Kind: relay.Answered}})
	if s.hib.phase != awake || s.hib.pause != 0 {
		t.Errorf("phase %v, pause %v", s.hib.phase, s.hib.pause)
	}
}

// A server that ends when its standard input has ended has not crashed. If that is a file or /dev/null, poll(2) does not
// tell of its end.
func TestTheEndOfAFileIsNoCrash(t *testing.T) {
	s := fromFile(t, awake)
	s.opts.OnCrash = OnCrashRestart
	copyOnce(s)
	s.onServerExit()
	if s.hib.phase != awake || s.cause != causeServer {
		t.Errorf("phase %v, cause %v", s.hib.phase, s.cause)
	}
}

// A session whose client's stream is such a file ends with the server that has read it, also if that did not end by itself:
// when it falls asleep, or when it cannot be woken.
func TestTheEndOfAFileEndsASessionWithoutAServer(t *testing.T) {
	for name, before := range map[string]phase{"idle": falling, "not woken": waking, "crashed": crashing} {
		t.Run(name, func(t *testing.T) {
			s := fromFile(t, before)
			copyOnce(s)
			s.changePhase(onTreeGone)
			if s.hib.phase != over || s.cause != causeStdin || !s.done {
				t.Errorf("phase %v, cause %v", s.hib.phase, s.cause)
			}
		})
	}
}

// fromFile is a session whose client's stream is /dev/null.
func fromFile(t *testing.T, p phase) *Session {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	s := woken(t, p)
	s.hib.relay = relay.New(relay.ReadEnd(int(null.Fd())), relay.WriteEnd(int(null.Fd())), roomy, time.Now())
	s.tree.relay = s.hib.relay
	return s
}
