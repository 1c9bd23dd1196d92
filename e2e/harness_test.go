package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// stormy is held by the test whose tree forks all the time. Two of them at once would measure how fast this machine kills
// against how fast it forks.
var stormy sync.Mutex

// storms tells whether a tree has a forking family. Cases with such trees are no parallel parts of their test: one that waits for
// its turn would hold the place of another test.
func storms(tree ...string) bool { return strings.Contains(strings.Join(tree, " "), "family=") }

// storm makes the test wait for its turn if its tree is a forking family. Call it before the tree is started: the turn
// ends after all that the test has registered since.
func storm(t testing.TB, tree ...string) {
	t.Helper()
	if storms(tree...) {
		stormy.Lock()
		t.Cleanup(stormy.Unlock)
	}
}

// sample leaves a case of a long list out of a short run, unless it is one of those that stand for the others. Every
// nth case does. places are the places of the case in each of the lists that it is made of; their sum is what counts.
func sample(t *testing.T, n int, places ...int) {
	t.Helper()
	sum := 0
	for _, p := range places {
		sum += p
	}
	if sum%n != 0 {
		testkit.Long(t)
	}
}

// setup of one session.
type setup struct {
	bare   bool     // without the wrapper: the negative control
	flags  []string // of the wrapper, beside the log flags
	stdio  string   // pipe (default) or socketpair
	stderr string   // "pipe": held unread by the gateway; default: a file that is shown on failure
	env    []string // K=V, beside the test's own
	keys   []string // further key=value words of the gateway's spawn, see fixture/gateway.go
}

// session is one server below a gateway, with all that its test may wait for. It has a runtime directory of its own.
type session struct {
	t       *testing.T
	gw      *gateway
	name    string
	dir     string // shared with the fixture
	runtime string // XDG_RUNTIME_DIR
	log     string
	stderr  string
	life    *lifeline
	flock   string
	pid     int // what the gateway spawned: the wrapper, or bare the server
	server  int // the server's own pid, known after waitReady
	ids     []string
}

// graces are the flags of a session whose server gets so much time, followed by more flags. A member that obeys has all the
// time that a busy machine may need, or it would end in another way. One that does not obey is waited for briefly: the
// outcome is the same.
func graces(eof, term time.Duration, flags []string) []string {
	return append([]string{"--eof-grace=" + eof.String(), "--term-grace=" + term.String()}, flags...)
}

const shortGrace, longGrace = 300 * time.Millisecond, 20 * time.Second

// polite is for a tree that ends at the end of its input and by SIGTERM.
func polite(flags ...string) []string { return graces(longGrace, longGrace, flags) }

// deaf is for a server that does not see the end of its input, in a tree that ends by SIGTERM.
func deaf(flags ...string) []string { return graces(shortGrace, longGrace, flags) }

// resisting is for a server that ends at the end of its input, in a tree of which something does not end by SIGTERM.
func resisting(flags ...string) []string { return graces(longGrace, shortGrace, flags) }

// quick is for a tree that may do neither.
func quick(flags ...string) []string { return graces(shortGrace, shortGrace, flags) }

// politeRoot is for a tree whose children use up the grace and whose root must die of SIGTERM: enough for that on a busy
// machine.
const politeRoot = "--term-grace=5s"

// stormKill is for a tree that forks while it is killed, or is large, beside neighbours that keep the processors busy.
const stormKill = "--kill-timeout=25s"

// node is the command line of a fixture tree: a root and its children, see fixture/main.go.
func node(dir, root string, children ...string) []string {
	return append([]string{fixture, "node", dir, "-", "0", root}, children...)
}

// begin starts a gateway with one server, the fixture tree, and waits until all of it is up.
func begin(t *testing.T, with setup, root string, children ...string) *session {
	t.Helper()
	s := startGateway(t).tree(with, root, children...)
	s.waitReady()
	return s
}

// tree starts a fixture tree as a further server of the gateway.
func (g *gateway) tree(with setup, root string, children ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.spawn(with, node(s.dir, root, children...)...)
	return s
}

// newSession prepares a session for a command of the caller's choice, to be started by spawn.
func (g *gateway) newSession() *session {
	g.t.Helper()
	g.count++
	dir := filepath.Join(g.dir, strconv.Itoa(g.count))
	s := &session{
		t: g.t, gw: g, name: strconv.Itoa(g.count), dir: dir, runtime: filepath.Join(dir, "run"),
		log: filepath.Join(dir, "log"), stderr: filepath.Join(dir, "stderr"), flock: filepath.Join(dir, "flock"),
	}
	s.ok(os.Mkdir(dir, 0o777))
	s.ok(os.Mkdir(s.runtime, 0o700))
	s.ok(os.Chmod(dir, 0o777))
	if g.uid != 0 {
		s.ok(os.Chown(s.runtime, g.uid, g.uid))
	}
	s.life = newLifeline(g.t, filepath.Join(dir, "lifeline"))
	g.t.Cleanup(s.cleanup)
	return s
}

// spawn has the gateway start the command, tethered unless bare.
func (s *session) spawn(with setup, argv ...string) {
	s.t.Helper()
	if !with.bare {
		argv = s.wrap(with.flags, argv...)
	}
	stderr := s.stderr
	if with.stderr != "" {
		stderr = with.stderr
	}
	req := []string{"spawn", s.name, "stdio=" + with.stdio, "stderr=" + stderr, "lifeline=" + s.life.path}
	for _, e := range append([]string{"XDG_RUNTIME_DIR=" + s.runtime}, with.env...) {
		req = append(req, "env="+e)
	}
	req = append(append(append(req, with.keys...), "--"), argv...)
	s.pid = number(s.t, s.gw.call(req...))
}

// wrap is the tethered command line, with the log where the test can read it.
func (s *session) wrap(flags []string, argv ...string) []string {
	head := []string{tether, "run", "--log-level=info", "--log-format=json", "--log-file=" + s.log}
	return slices.Concat(head, flags, []string{"--"}, argv)
}

// waitReady waits for the line that the fixture prints when its whole tree is up.
func (s *session) waitReady() {
	s.t.Helper()
	line := s.read()
	var ready struct {
		Method string
		Params struct{ Pid int }
	}
	if err := json.Unmarshal([]byte(line), &ready); err != nil || ready.Method != "ready" {
		s.t.Fatalf("instead of ready the server said %q (%v)", line, err)
	}
	s.server = ready.Params.Pid
	s.ids = s.records()
}

// record is what a session's record says, as far as tests must know.
type record struct {
	ID                         string
	Supervisor, Anchor, Server struct{ PID int }
	// Behind is the id of the front before it.
	Behind string
}

func (s *session) record(id string) record {
	s.t.Helper()
	var r record
	b, err := os.ReadFile(filepath.Join(s.runtime, "mcp-tether", id+".json"))
	s.ok(err)
	s.ok(json.Unmarshal(b, &r))
	return r
}

// recordNow is record for another's session, which may have ended: then it is empty.
func (s *session) recordNow(id string) (r record) {
	_ = json.Unmarshal([]byte(s.rawRecord(id)), &r)
	return r
}

// behind is the record of the session behind a front, and of any other session its own.
func (s *session) behind() record {
	s.t.Helper()
	for _, id := range s.records() {
		if r := s.recordNow(id); r.Behind != "" && (len(s.ids) == 0 || slices.Contains(s.ids, r.Behind)) {
			return r
		}
	}
	return s.record(s.id())
}

// supervisor is the pid in the session's record, or in that of the session behind a front.
func (s *session) supervisor() int {
	s.t.Helper()
	pid := s.behind().Supervisor.PID
	if pid == 0 {
		s.t.Fatal("no supervisor in the record")
	}
	return pid
}

// waitRecord waits for the record: a quick server is up before it is written.
func (s *session) waitRecord() {
	s.t.Helper()
	testkit.Until(s.t, "a record", func() bool {
		if len(s.ids) == 0 {
			s.ids = s.records()
		}
		return len(s.ids) > 0
	})
}

// id is the session's, once its record tells. It is the front's, if there is one.
func (s *session) id() string {
	s.t.Helper()
	s.waitRecord()
	for _, id := range s.ids {
		if r := s.recordNow(id); r.Behind != "" {
			return r.Behind
		} else if r.ID != "" {
			return id
		}
	}
	return s.ids[0]
}

// records are the ids of the sessions on disk.
func (s *session) records() []string {
	files, _ := filepath.Glob(filepath.Join(s.runtime, "mcp-tether", "*.json"))
	var ids []string
	for _, f := range files {
		ids = append(ids, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	return ids
}

// What the gateway does with this server. Each waits for the gateway's answer.

func (s *session) write(text string) { s.t.Helper(); s.gw.call("write", s.name, text) }
func (s *session) read() string      { s.t.Helper(); return s.gw.call("read", s.name) }
func (s *session) closeStdin()       { s.t.Helper(); s.gw.call("close", s.name, "stdin") }
func (s *session) closeStdout()      { s.t.Helper(); s.gw.call("close", s.name, "stdout") }
func (s *session) closeStderr()      { s.t.Helper(); s.gw.call("close", s.name, "stderr") }
func (s *session) shutdownStdin()    { s.t.Helper(); s.gw.call("shutdown", s.name) }

// readToEnd returns what is left on the server's stdout once every writer has closed it.
func (s *session) readToEnd() string { s.t.Helper(); return s.gw.call("eof", s.name) }

// ask sends a line and returns the answer.
func (s *session) ask(line string) string {
	s.t.Helper()
	s.write(line + "\n")
	return s.read()
}

// signal sends a signal to what the gateway spawned.
func (s *session) signal(sig syscall.Signal) {
	s.t.Helper()
	s.gw.call("signal", s.name, strconv.Itoa(int(sig)))
}

// wait returns how the gateway's child ended: "exit N" or "signal N".
func (s *session) wait() string {
	s.t.Helper()
	return s.gw.call("wait", s.name)
}

// notes that members of the tree left.
func (s *session) notes() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "notes"))
	return string(b)
}

// waitDead waits until no process of the tree is left.
func (s *session) waitDead() {
	s.t.Helper()
	if err := s.waitUnlocked(); err != nil {
		s.t.Fatalf("still alive: %v", err)
	}
	if err := waitFree(s.flock, testkit.Patience); err != nil {
		s.t.Fatalf("a member without fds is still alive: %v", err)
	}
}

// waitUnlocked waits until no process is left but those that hold the lock.
func (s *session) waitUnlocked() error {
	if err := s.life.wait(testkit.Patience); err != nil {
		return err
	}
	deadline := time.Now().Add(testkit.Patience)
	for all := s.wrappers(); len(all) > 0; all = s.wrappers() {
		for _, p := range all {
			fd, err := unix.PidfdOpen(p.pid, 0)
			if err != nil {
				continue // it ended meanwhile
			}
			dead, err := awaitPidfd(fd, time.Until(deadline))
			_ = unix.Close(fd)
			if err != nil || !dead {
				return fmt.Errorf("%v (%w)", p, err)
			}
		}
	}
	return nil
}

// wrappers are the living processes of the wrapper's own. They give up what only the server should hold, the lifeline
// too. But they have the session's log in their command lines. Nothing else has, apart from the fixture that is to
// start the wrapper.
func (s *session) wrappers() []proc {
	var found []proc
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		// That of a dead process is empty.
		b, _ := os.ReadFile(file)
		if bytes.Contains(b, []byte("--log-file="+s.log+"\x00")) && !bytes.HasPrefix(b, []byte(fixture+"\x00")) {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			found = append(found, describe(pid))
		}
	}
	return found
}

// members are the living processes of the session, but for those that hold the lock in the lifeline's place.
func (s *session) members() []proc {
	all := s.wrappers()
	for _, p := range holders(s.life.path) {
		if !slices.ContainsFunc(all, func(q proc) bool { return p.pid == q.pid }) {
			all = append(all, p)
		}
	}
	return all
}

// alive tells whether any process of the session is left.
func (s *session) alive() bool {
	return s.life.held() || held(s.flock) || len(s.wrappers()) > 0
}

// gone waits for the end of the session, our own processes included, and looks for anything that it left. Our own hold
// neither the lifeline nor the lock: they give up what the server alone should hold.
func (s *session) gone() {
	s.t.Helper()
	s.waitDead()
	for deadline := time.Now().Add(testkit.Patience); len(s.litter()) > 0 && time.Now().Before(deadline); {
		pause(time.Millisecond)
	}
	if s.pid > 0 {
		awaitExit(s.t, s.pid)
	}
	s.nothingLeft()
}

// nothingLeft looks for processes, records and cgroups of the session.
func (s *session) nothingLeft() {
	s.t.Helper()
	if s.alive() {
		s.t.Error("processes are left")
	}
	for _, left := range s.litter() {
		s.t.Errorf("left: %s", left)
	}
}

// litter lists the files and cgroups of the session.
func (s *session) litter() []string {
	left, _ := filepath.Glob(filepath.Join(s.runtime, "mcp-tether", "*"))
	// The test may not have seen the record of a quick session.
	ids := append(endedIn(s.log), s.ids...)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if leaf := cgroupLeaf(id); leaf != "" {
			left = append(left, leaf)
		}
		// The socket is here when its path would be too long.
		socks, _ := filepath.Glob("/tmp/mcp-tether-*/" + id + ".sock")
		left = append(left, socks...)
	}
	return left
}

// cleanup shows what is left of a failed test, and ends what is left of any.
func (s *session) cleanup() {
	if s.t.Failed() {
		s.dump()
	}
	s.ids = append(s.ids, s.records()...)
	s.endAll()
	for _, id := range append(s.ids, s.records()...) {
		removeLeaf(id)
	}
	_ = s.life.r.Close()
}

// removeLeaf removes the leaf of a session that was killed. The kernel closes the files of a process before it takes the
// process out of its cgroup, so it may need a moment. A leaf that stays in use is another session's in the same directory.
func removeLeaf(id string) {
	leaf := cgroupLeaf(id)
	for range 100 {
		if leaf == "" || !errors.Is(os.Remove(leaf), unix.EBUSY) {
			return
		}
		pause(10 * time.Millisecond)
	}
}

// endAll kills the holders of the lifeline and the lock, by pid, until there are none. A forking family is told to
// stop first: it is never all in one listing.
func (s *session) endAll() {
	_ = os.WriteFile(filepath.Join(s.dir, "stop"), nil, 0o666)
	for range 100 {
		if !s.alive() {
			return
		}
		left := append(s.members(), holders(s.flock)...)
		for _, p := range left {
			if id := p.leafID(); id != "" {
				s.ids = append(s.ids, id) // it may have no record yet
			}
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		_ = s.life.wait(200 * time.Millisecond)
		_ = waitFree(s.flock, 200*time.Millisecond)
	}
	s.t.Errorf("could not end %v", s.members())
}

func (s *session) dump() {
	s.t.Helper()
	for _, f := range []string{s.log, s.stderr} {
		b, _ := os.ReadFile(f)
		if len(b) > 8<<10 {
			b = b[len(b)-8<<10:]
		}
		s.t.Logf("session %s, %s:\n%s", s.name, filepath.Base(f), b)
	}
	left := append(s.members(), holders(s.flock)...)
	for i, p := range left {
		if i == 30 {
			s.t.Logf("... %d in all", len(left))
			return
		}
		s.t.Logf("left: %v", p)
	}
}

func (s *session) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
