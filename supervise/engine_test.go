package supervise

import (
	"bufio"
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
	s.newTree().openEngine(false)
	s.tree.clear = true
	defer s.closeTree()
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
	s.closeTree()
}

// A tree without a journal does not know what the one before it has made and left: its ledger is not all there is.
func TestNextTreeWithoutJournal(t *testing.T) {
	for _, recall := range []bool{false, true} {
		s := &Session{}
		s.hand.ID, s.hand.Mailbox, s.opts.Engine = session.NewID(), -1, "unix://"+t.TempDir()+"/none"
		tr := s.newTree()
		tr.openEngine(recall)
		if tr.engine == nil {
			t.Fatal("no engine")
		}
		if tr.engine.claim.Complete == recall {
			t.Errorf("with a tree before it %v: all is known %v", recall, !recall)
		}
		tr.clear = true
		if r := s.closeTree(); (r.removed.err != nil) != recall {
			t.Errorf("with a tree before it %v: %v", recall, r.removed.err)
		}
	}
}

// remembered is a session whose last tree has left containers: their notes are in the journal.
func remembered(t *testing.T, left ...container.Note) (s *Session, dir *session.Directory) {
	t.Helper()
	s = woken(t, awake)
	s.hand.ID, s.opts.Engine = session.NewID(), "unix://"+t.TempDir()+"/none"
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
	s.left.containers = true
	s.tree.clear = true
	return s, dir
}

// What a client does to objects of an earlier tree is noted, as if this tree had made them: a restart of what was started, and
// another's container in a network.
func TestNextTreeKnowsWhatWasMade(t *testing.T) {
	const then, now = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
	s, dir := remembered(t,
		container.Note{Op: container.OpStarted, Kind: container.Container, ID: "f", Started: then},
		container.Note{Op: container.OpCreated, Kind: container.Network, ID: "n", Request: "r"})
	var restarted atomic.Bool
	s.opts.Engine = serving(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/containers/f/restart":
			restarted.Store(true)
		case r.URL.Path == "/containers/f/json" && restarted.Load():
			fmt.Fprintf(w, `{"Id":"f","State":{"Running":true,"StartedAt":%q}}`, now)
		case r.URL.Path == "/containers/f/json":
			fmt.Fprintf(w, `{"Id":"f","State":{"Running":true,"StartedAt":%q}}`, then)
		case r.URL.Path == "/networks":
			fmt.Fprint(w, `[{"Id":"n","Name":"net"}]`)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `[]`)
		}
	})
	s.tree.openEngine(true)
	s.tree.serveEngine()
	e := s.tree.engine
	c, err := net.Dial("unix", e.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	for path, body := range map[string]string{"/containers/f/restart": "", "/networks/n/connect": `{"Container":"f"}`} {
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %+v, %v", path, r, err)
		}
		r.Body.Close()
	}
	var ledger container.Ledger
	notes, err := dir.Notes(s.hand.ID)
	for _, n := range notes {
		ledger.Add(n)
	}
	at, _ := time.Parse(time.RFC3339, now)
	if ours, _ := ledger.HasStarted(&container.Info{ID: "f", Running: true, StartedAt: at}); !ours || err != nil {
		t.Errorf("the restart is not noted: %+v, %v", notes, err)
	}
	connects := func(n container.Note) bool { return n.Op == container.OpConnect && n.ID == "n" && n.Container == "f" }
	if !slices.ContainsFunc(notes, connects) {
		t.Errorf("the connection is not noted: %+v", notes)
	}
	e.outcome = make(chan removal, 1)
	e.outcome <- removal{}
	s.forgetTree()
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

// What the journal lists is removed once. A note that stayed would have a later tree pause a container of others again.
func TestJournalOfAnEarlierTreeIsEmptied(t *testing.T) {
	touched := container.Note{Op: container.OpStarted, Kind: container.Container, ID: "f", Started: "2026-01-02T03:04:05Z", Paused: true}
	for name, byClient := range map[string]bool{"with the tree": false, "by a client": true} {
		t.Run(name, func(t *testing.T) {
			s, dir := remembered(t, touched)
			s.tree.openEngine(true)
			e := s.tree.engine
			if e == nil || len(e.ledger.Started()) != 1 || !e.claim.Complete {
				t.Fatalf("the notes are not known: %+v", e)
			}
			if byClient {
				e.note(container.Note{Op: container.OpRemoved, Kind: container.Container, ID: "f"})
				if got, err := dir.Notes(s.hand.ID); len(got) > 0 || err != nil {
					t.Errorf("at once the journal has %v, %v", got, err)
				}
			}
			// The engine is gone: the outcome is said to have come.
			e.outcome = make(chan removal, 1)
			e.outcome <- removal{}
			s.forgetTree()
			if got, err := dir.Notes(s.hand.ID); len(got) > 0 || err != nil {
				t.Errorf("the journal has %v, %v", got, err)
			}
			if s.left.containers {
				t.Error("the next tree looks for them again")
			}
		})
	}
	// The control: they are not removed.
	s, dir := remembered(t, touched)
	s.tree.openEngine(true)
	s.forgetTree()
	if got, err := dir.Notes(s.hand.ID); len(got) != 1 || err != nil || !s.left.containers {
		t.Errorf("the journal has %v, %v; left %v", got, err, s.left.containers)
	}
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

// An engine that cannot be found again may still have what the session has made.
func TestRemoveAgainWithoutEngine(t *testing.T) {
	s := &Session{}
	s.record.Engine = "gopher://nowhere"
	if r := s.removeAgain(removal{}); r.err == nil {
		t.Error("nobody says that containers may be left")
	}
	if r := s.removeAgain(removal{done: true}); r.err != nil {
		t.Errorf("the last look was enough: %v", r.err)
	}
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
			fmt.Fprint(w, `[{"Id":"a","State":"running"}]`)
		default:
			fmt.Fprint(w, `{"Id":"a","State":{"Running":true}}`)
		}
	})
	at, err := container.EndpointAt(url, "", false)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{endpoint: at, grace: time.Millisecond, limit: time.Second, claim: container.Claim{Session: "s", Complete: true, TrustIDs: true}}
	e.ledger.Add(container.Note{Op: container.OpCreated, Kind: container.Container, ID: "a"})
	// On a machine that is too slow for a round, the next one asks again, or a round ends before its kill.
	if r := e.remove(); r.err == nil || asked.Load() == 0 || asked.Load() >= maxRounds || killed.Load() < maxRounds/2 {
		t.Errorf("asked %d times, killed %d times: %v", asked.Load(), killed.Load(), r.err)
	}
}

// A session that is told to end while it removes the containers of a server that falls asleep, or has crashed, looks once
// more for those that it could not remove. The watchdog, the next session of the key and a host have time for both.
func TestLongestEndCountsBothRemovals(t *testing.T) {
	s, _ := listening(t)
	defer s.closeTree()
	for name, relays := range map[string]func(o *Options){
		"hibernate": func(o *Options) { o.Hibernate = time.Minute },
		"on-crash":  func(o *Options) { o.OnCrash = OnCrashRestart },
	} {
		o := Defaults()
		relays(&o)
		without := o
		without.Containers = ContainersOff
		want := 2 * o.longestRemoval()
		for what, got := range map[string]time.Duration{
			"watchdog":     longestEnd(o, s.hand.ID) - longestEnd(without, s.hand.ID),
			"next session": o.longestPredecessor(s.hand.ID) - without.longestPredecessor(s.hand.ID),
			"host":         o.LongestEnd() - without.LongestEnd(),
		} {
			if got != want {
				t.Errorf("%s: the %s has %v for containers, want %v", name, what, got, want)
			}
		}
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
	o = Options{TermGrace: longestDuration, KillTimeout: longestDuration, EOFGrace: longestDuration, ContainerGrace: longestDuration, Hibernate: 1}
	if got := longestEnd(o, s.hand.ID) + margin; got < longestDuration {
		t.Errorf("with the longest of all: %v", got)
	}
	s.closeTree()
}

// A server that sleeps has no socket for clients. What it has left is in the journal, and is removed at the session's end.
func TestLongestEndCountsWhatASleepingServerHasLeft(t *testing.T) {
	s, dir := remembered(t)
	t.Setenv("XDG_RUNTIME_DIR", filepath.Dir(dir.Name))
	o := Defaults()
	plain := longestEnd(o, s.hand.ID)
	if want := o.TermGrace + o.KillTimeout; plain != want {
		t.Errorf("without a journal: %v, want %v", plain, want)
	}
	j := dir.Journal(s.hand.ID)
	defer j.Close()
	if err := j.Note(container.Note{Op: container.OpCreated, Kind: container.Container, ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if got, want := longestEnd(o, s.hand.ID), plain+o.longestRemoval(); got != want {
		t.Errorf("with containers: %v, want %v", got, want)
	}
	if err := j.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := longestEnd(o, s.hand.ID); got != plain {
		t.Errorf("with an empty journal: %v, want %v", got, plain)
	}
}
