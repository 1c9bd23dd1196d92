package supervise

import (
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/engine/keeper"
	"mcp-tether/internal/session"
)

// listening is a session whose tree has an engine that no client has connected to yet, and the listener's number.
func listening(t *testing.T, engine string) (s *Session, listener int) {
	t.Helper()
	s = &Session{}
	s.id, s.opts.Engine, s.opts.Grace.Kill = session.NewID(), engine, time.Second
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, err := session.Open(os.Getuid(), runtime)
	if err != nil {
		t.Fatal(err)
	}
	if s.lease, err = dir.Take(s.id); err != nil {
		t.Fatal(err)
	}
	s.newTree().openEngine()
	s.tree.clear = true
	if s.tree.engine == nil {
		t.Fatal("no engine")
	}
	s.tree.adoptEngine(s.tree.engine.Listener())
	return s, s.tree.engine.Listener()
}

// When a tree ends, the kernel gives the number of its listener to the next file. The session must not take a byte in
// that file for a client of an engine that it does not have any more.
func TestClosedTreeLeavesNoListenerBehind(t *testing.T) {
	s, listener := listening(t, "unix:///nowhere")
	r, w := testkit.Pipe(t)
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	s.tree.close()
	if _, err := unix.FcntlInt(uintptr(listener), unix.F_GETFD, 0); err == nil {
		t.Fatal("the listener is still open")
	}
	if err := unix.Dup3(int(r.Fd()), listener, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	if fired := s.polled.wait(0); slices.Contains(fired, clients) {
		t.Errorf("%v has fired: the number is another file's now", fired)
	}
}

// The control: a client that connects is seen while the session waits for its engine's clients.
func TestListenerFires(t *testing.T) {
	s, listener := listening(t, "unix:///nowhere")
	defer s.tree.close()
	if fired := s.polled.wait(0); len(fired) > 0 {
		t.Fatalf("%v has fired, and no client has connected", fired)
	}
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(client)
	name, err := unix.Getsockname(listener)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(client, name); err != nil {
		t.Fatal(err)
	}
	if fired := s.polled.wait(0); !slices.Equal(fired, []source{clients}) {
		t.Errorf("%v has fired", fired)
	}
}

// Whoever ends the session in place of the supervisor must know that there may be containers.
func TestUseOfTheEngineIsOnRecord(t *testing.T) {
	s, _ := listening(t, "unix:///nowhere")
	defer s.tree.close()
	s.writeRecord(session.StateRunning)
	for _, used := range []bool{false, true} {
		r, err := s.lease.Dir().Read(s.id)
		if err != nil || r.EngineUsed != used || r.Engine != "unix:///nowhere" {
			t.Errorf("used %v: %+v, %v", used, r, err)
		}
		s.serveEngine()
	}
}

// A client that comes too late finds no engine to be served by, and ends no session.
func TestServeEngineWithoutOne(t *testing.T) {
	none := &Session{}
	none.newTree()
	none.serveEngine()
	if none.tree.engine != nil || none.record.EngineUsed {
		t.Error("an engine was made up")
	}
}

// A tree that is ending does not begin to serve clients: what they made would not be looked for any more.
func TestEndingTreeServesNoClient(t *testing.T) {
	s, listener := listening(t, "unix:///nowhere")
	s.tree.shutEngine()
	if _, err := unix.FcntlInt(uintptr(listener), unix.F_GETFD, 0); err == nil {
		t.Error("clients can still connect")
	}
	// The listener had fired in the same turn of the loop.
	s.serveEngine()
	if s.tree.engine.Listener() >= 0 || s.record.EngineUsed {
		t.Error("clients are waited for")
	}
	s.tree.close()
}

// An engine gets time for its part also where processes get none.
func TestRemovalLimit(t *testing.T) {
	for kill, want := range map[time.Duration]time.Duration{0: time.Second, 300 * time.Millisecond: time.Second, time.Minute: time.Minute} {
		c := common{opts: Defaults()}
		c.opts.Engine, c.opts.Grace.Kill = "unix:///nowhere", kill
		if got := c.keeping(); got.Limit != want {
			t.Errorf("%v: a limit of %v, want %v", kill, got.Limit, want)
		}
		if all := c.opts.longestRemoval(); all < want+keeper.Grace {
			t.Errorf("%v: %v for all", kill, all)
		}
	}
}

// A front that looks whether the server may sleep reads in the record when a container was made.
func TestMadeContainerIsOnRecord(t *testing.T) {
	e := &testkit.Engine{}
	s, _ := listening(t, e.Listen(t))
	defer s.tree.close()
	for range 2 { // and the next one as well
		before := time.Now()
		c, err := net.Dial("unix", s.record.Socket)
		if err != nil {
			t.Fatal(err)
		}
		if !s.record.EngineUsed {
			s.serveEngine()
			if fired := s.polled.wait(0); len(fired) > 0 {
				t.Errorf("%v has fired, and nothing was made", fired)
			}
		}
		_, _ = io.WriteString(c, "POST /containers/create HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
		_, _ = io.ReadAll(c)
		c.Close()
		if fired := s.polled.wait(0); !slices.Equal(fired, []source{made}) {
			t.Fatalf("%v has fired", fired)
		}
		s.noteMade()
		if r, err := s.lease.Dir().Read(s.id); err != nil || r.ContainerAt.Before(before) {
			t.Errorf("made at %v, on record %v, %v", before, r.ContainerAt, err)
		}
	}
}
