package supervise

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	container "mcp-tether/internal/engine"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

// listening is a session whose tree has an engine that no client has connected to yet, and the listener's number.
func listening(t *testing.T) (s *Session, listener int) {
	t.Helper()
	s = &Session{}
	s.hand.ID, s.hand.Mailbox = session.NewID(), -1
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	dir, err := session.Open(os.Getuid(), runtime)
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
	s, listener := listening(t)
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

// The record says that the engine is reached through podman, for whoever comes after both of our processes.
func TestRecordOfAnEngineBehindPodman(t *testing.T) {
	bin := t.TempDir()
	testkit.WriteProgram(t, filepath.Join(bin, "podman"), nil)
	for name, value := range map[string]string{"PATH": bin, "DOCKER_HOST": "", "DOCKER_CONTEXT": "default", "CONTAINER_HOST": "ssh://far"} {
		t.Setenv(name, value)
	}
	if at, _, err := container.Resolve("", os.Getenv); err != nil || !at.Podman {
		t.Logf("%s is in front of it: %v", at.URL, err)
		return
	}
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := &Session{}
	s.hand.ID, s.hand.Mailbox = session.NewID(), -1
	if s.lease, err = dir.Take(s.hand.ID); err != nil {
		t.Fatal(err)
	}
	defer s.lease.Release()
	s.record = session.Record{Version: session.Version, ID: s.hand.ID, UID: os.Getuid()}
	s.newTree().openEngine()
	s.tree.clear = true
	defer s.tree.close()
	if err := s.lease.Write(s.record); err != nil {
		t.Fatal(err)
	}
	r, err := dir.Read(s.hand.ID)
	if err != nil || r.Engine != "ssh://far" || !r.EnginePodman {
		t.Errorf("the engine is %q, podman's %v: %v", r.Engine, r.EnginePodman, err)
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
	s.tree.close()
}

// remembered is a session whose supervisor was killed: its notes are in the journal.
func remembered(t *testing.T, left ...container.Note) (s *Session, dir *session.Directory) {
	t.Helper()
	s = &Session{}
	s.hand.ID, s.hand.Mailbox, s.opts.Engine = session.NewID(), -1, "unix://"+t.TempDir()+"/none"
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	if s.lease, err = dir.Take(s.hand.ID); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.lease.Release)
	j := dir.Journal(s.hand.ID)
	defer j.Close()
	for _, n := range left {
		if err := j.Note(n); err != nil {
			t.Fatal(err)
		}
	}
	return s, dir
}

// serving is the URL of an engine.
func serving(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mt") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", dir+"/e.sock")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handle}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + dir + "/e.sock"
}

// A journal that cannot be read is neither emptied nor replaced before that: its notes are known from nowhere else.
func TestUnreadJournalStays(t *testing.T) {
	made := container.Note{Op: container.OpCreated, Kind: container.Container, ID: "a", Request: "r"}
	s, dir := remembered(t, made)
	e := &engine{dir: dir, journal: dir.Journal(s.hand.ID), unread: true, forgetAt: forgetEvery}
	e.claim.Session = s.hand.ID
	for _, op := range []container.Op{container.OpCreated, container.OpRemoved} {
		e.note(container.Note{Op: op, Kind: container.Container, ID: "b", Request: "s"})
	}
	if err := e.recallOnce(); err != nil || !e.claim.Complete {
		t.Fatalf("all is known %v: %v", e.claim.Complete, err)
	}
	if all := e.ledger.Objects(); len(all) != 1 || all[0].ID != "a" {
		t.Errorf("known is %+v", all)
	}
	e.closeJournal(false)
}

// An engine gets time for its part also where processes get none, in each round after the grace period of the containers.
func TestRemovalLimit(t *testing.T) {
	for kill, want := range map[time.Duration]time.Duration{0: answerTime, 300 * time.Millisecond: answerTime, time.Minute: time.Minute} {
		c := common{opts: Defaults()}
		c.opts.Engine, c.opts.KillTimeout, c.opts.ContainerGrace = "unix:///nowhere", kill, time.Hour
		e, err := c.newEngine(false)
		if err != nil || e.limit != want {
			t.Errorf("%v: a limit of %v (%v), want %v", kill, e.limit, err, want)
		}
		if all := c.opts.longestRemoval(); all < maxRounds*(e.grace+e.limit+answerTime) {
			t.Errorf("%v: %v for all rounds", kill, all)
		}
	}
}

// A container that cannot be removed is asked to stop, and waited for, in the first round only.
func TestUnremovableContainerHasOneGracePeriod(t *testing.T) {
	var asked, killed atomic.Int32
	url := serving(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			http.Error(w, `{"message":"device or resource busy"}`, http.StatusInternalServerError)
		case strings.HasSuffix(r.URL.Path, "/wait"):
			<-r.Context().Done()
		case r.URL.Query().Get("signal") == "SIGTERM":
			asked.Add(1)
		case r.Method == http.MethodPost:
			killed.Add(1)
		case r.URL.Path == "/containers/json":
			fmt.Fprint(w, `[{"Id":"a","State":"running","Labels":{"mcp-tether.request":"r"}}]`)
		default:
			fmt.Fprint(w, `{"Id":"a","State":{"Running":true}}`)
		}
	})
	at, err := container.EndpointAt(url, "", false)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{endpoint: at, grace: time.Millisecond, limit: time.Second, claim: container.Claim{Session: "s", Complete: true, TrustIDs: true}}
	e.ledger.Add(container.Note{Op: container.OpCreated, Kind: container.Container, ID: "a", Request: "r"})
	// On a machine that is too slow for a round, the next one asks again, or a round ends before its kill.
	if r := e.remove(); r.err == nil || asked.Load() == 0 || asked.Load() >= maxRounds || killed.Load() < maxRounds/2 {
		t.Errorf("asked %d times, killed %d times: %v", asked.Load(), killed.Load(), r.err)
	}
}

// The watchdog of a session with a socket for clients waits for the removal of its containers, however long it is allowed
// to take.
func TestLongestEndCountsContainers(t *testing.T) {
	s, _ := listening(t)
	o := Options{TermGrace: time.Second, KillTimeout: time.Minute, ContainerGrace: time.Hour}
	without := o
	without.Containers = ContainersOff
	if got, want := longestEnd(o, s.hand.ID)-longestEnd(without, s.hand.ID), o.longestRemoval(); got != want {
		t.Errorf("%v for containers, want %v", got, want)
	}
	o = Options{TermGrace: longestDuration, KillTimeout: longestDuration, EOFGrace: longestDuration, ContainerGrace: longestDuration}
	if got := longestEnd(o, s.hand.ID) + margin; got < longestDuration {
		t.Errorf("with the longest of all: %v", got)
	}
	s.tree.close()
}
