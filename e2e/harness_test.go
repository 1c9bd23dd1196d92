package e2e

import (
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// stormy is held by the test whose tree forks all the time, or has hundreds of processes. Two of them at once would measure
// how fast this machine kills against how fast it forks, or use up its pids.
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

// sample leaves all but every nth case of a long list out of a short run. The name of the case decides, so that a new case
// changes nothing for the others.
func sample(t *testing.T, n int) {
	t.Helper()
	if hashOf(t.Name())%n != 0 {
		testkit.Long(t)
	}
}

// hashOf is a number that only the name decides.
func hashOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32() >> 1)
}

// What the tests play on is e2e/stage. Here it is what is shorter to say in a test.
type (
	setup    = stage.Setup
	proc     = stage.Proc
	lifeline = stage.Lifeline
	record   = stage.Record
)

// gateway is a gateway of a test.
type gateway struct {
	*stage.Gateway
	t *testing.T
}

// session is one server below a gateway.
type session struct {
	*stage.Session
	gw *gateway
	t  *testing.T
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

// node is the command line of a fixture tree: a root and its children, see fixture/main.go.
func node(dir, root string, children ...string) []string {
	return append([]string{fixture, "node", dir, "-", "0", root}, children...)
}

func startGateway(t *testing.T) *gateway {
	t.Helper()
	return startGatewayIn(t, stage.World{})
}

// startGatewayAs starts the gateway as another user, if uid is not 0.
func startGatewayAs(t *testing.T, uid int) *gateway {
	t.Helper()
	testkit.Lacks(t, testkit.Root, !(uid == 0 || os.Geteuid() == 0), "root")
	return startGatewayIn(t, stage.World{UID: uid})
}

func startGatewayIn(t *testing.T, w stage.World) *gateway {
	t.Helper()
	return &gateway{Gateway: stage.Start(t, programs(), w), t: t}
}

// begin starts a gateway with one server, the fixture tree, and waits until all of it is up.
func begin(t *testing.T, with setup, root string, children ...string) *session {
	t.Helper()
	s := startGateway(t).tree(with, root, children...)
	s.WaitReady()
	return s
}

// tree starts a fixture tree as a further server of the gateway.
func (g *gateway) tree(with setup, root string, children ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.Spawn(with, node(s.Dir, root, children...)...)
	return s
}

// newSession prepares a session for a command of the caller's choice, to be started by Spawn.
func (g *gateway) newSession() *session {
	g.t.Helper()
	return &session{Session: g.NewSession(), gw: g, t: g.t}
}

// logOnly is a session that a real client starts: only its command line, its records and its log are asked for.
func logOnly(t *testing.T, log, runtime string) *session {
	alone := &stage.Gateway{Programs: programs()}
	return &session{t: t, Session: &stage.Session{T: t, Gateway: alone, Log: log, Runtime: runtime}}
}

func (s *session) closeStdin()  { s.t.Helper(); s.Close("stdin") }
func (s *session) closeStdout() { s.t.Helper(); s.Close("stdout") }

// ok fails the test at an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *session) ok(err error) {
	s.t.Helper()
	ok(s.t, err)
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	ok(t, err)
	return n
}

func wantExit(t *testing.T, got string, want ...string) {
	t.Helper()
	if !slices.Contains(want, got) {
		t.Errorf("the wrapper ended with %q, want %q", got, want)
	}
}

// own puts what the gateway starts into a terminal session of its own. In the gateway's, the kernel itself would
// continue a stopped process group whose gateway ends.
var own = []string{"setsid=1"}

// state is the one letter of a process's state, "" when there is no such process.
func state(pid int) string { return stage.Describe(pid).State }
