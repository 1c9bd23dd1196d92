package supervise

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/proc"
	"mcp-tether/relay"
	"mcp-tether/teardown"
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
	var up, down [2]int
	for _, pipe := range []*[2]int{&up, &down} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) })
	}
	s := &Session{}
	s.hand.Mailbox = -1
	s.left.scope.Root = os.Getpid()
	s.hib = &hibernation{phase: p, relay: relay.New(relay.ReadEnd(up[0]), relay.WriteEnd(down[1]), roomy, time.Now())}
	s.newTree()
	return s
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
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := woken(t, awake)
	s.opts.OnCrash = OnCrashRestart
	s.hib.relay = relay.New(relay.ReadEnd(int(null.Fd())), relay.WriteEnd(int(null.Fd())), roomy, time.Now())
	fds := s.hib.relay.Polls()
	proc.Poll(fds[:1], 0)
	s.hib.relay.Move(fds)
	s.onServerExit()
	if s.hib.phase != awake || s.cause != causeServer {
		t.Errorf("phase %v, cause %v", s.hib.phase, s.cause)
	}
}
