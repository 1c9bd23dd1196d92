package supervise

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
	"mcp-tether/session"
)

// listening is a session whose tree has an engine that no client has connected to yet, and the listener's number.
func listening(t *testing.T) (s *Session, listener int) {
	t.Helper()
	s = &Session{}
	s.hand.ID, s.hand.Mailbox = session.NewID(), -1
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fd, socket, err := session.Listen(dir, s.hand.ID, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{log: s.log, listener: fd, socket: socket, dir: dir}
	e.claim.Session, e.claim.Complete = s.hand.ID, true
	s.newTree().engine = e
	s.tree.clear = true
	s.polled.add(clients, fd, unix.POLLIN)
	return s, fd
}

// When a tree ends, the kernel gives the number of its listener to the next file. The session must not take a byte in
// that file for a client of an engine that it does not have any more.
func TestClosedTreeLeavesNoListenerBehind(t *testing.T) {
	s, listener := listening(t)
	r, w := testkit.Pipe(t)
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	s.closeTree()
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
	s, listener := listening(t)
	defer s.closeTree()
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

// A client that comes too late finds no engine to be served by, and ends no session.
func TestServeEngineWithoutOne(t *testing.T) {
	var none *tree
	none.serveEngine()
	fresh := &tree{}
	fresh.serveEngine()
	if fresh.engine != nil {
		t.Error("an engine was made up")
	}
}

// A tree that is ending does not begin to serve clients: what they made would not be looked for any more.
func TestEndingTreeServesNoClient(t *testing.T) {
	s, listener := listening(t)
	s.tree.shutEngine()
	if _, err := unix.FcntlInt(uintptr(listener), unix.F_GETFD, 0); err == nil {
		t.Error("clients can still connect")
	}
	// The listener had fired in the same turn of the loop.
	s.tree.serveEngine()
	if e := s.tree.engine; e.served {
		t.Error("a client is served")
	}
	s.closeTree()
}
