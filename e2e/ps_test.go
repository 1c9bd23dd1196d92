package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
)

// awaitTrue returns when something is true that no event announces.
func awaitTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	testkit.Until(t, what, is)
}

// rawRecord is the text of a record, "" when it is gone.
func (s *session) rawRecord(id string) string {
	b, _ := os.ReadFile(filepath.Join(s.recordDir(), id+".json"))
	return string(b)
}

// shown is a session as ps shows it.
type shown struct {
	ID, Name, State, Cause string
	Gateway, Server        identity
	Procs                  int
	MemoryBytes            uint64   `json:"memory_bytes"`
	CPUPercent             *float64 `json:"cpu_percent"`
	AgeSeconds             *int64   `json:"age_seconds"`
	GatewayState           string   `json:"gateway_state"`
	GatewayCommand         string   `json:"gateway_command"`
	Args                   []string
	Tree                   []struct{ PID, PPID, Depth int }
	Leaf                   map[string]int
}

func (c caller) ps(t *testing.T, args ...string) []shown {
	t.Helper()
	o := c.run(t, append([]string{"ps", "--json"}, args...)...)
	var list struct {
		Version  int
		Sessions []shown
	}
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || o.code != 0 || list.Version != 1 || list.Sessions == nil {
		t.Fatalf("ps: exit code %d, %v\n%s%s", o.code, err, o.stdout, o.stderr)
	}
	return list.Sessions
}

func TestPs(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	if o := operator.run(t, "ps"); o.code != 0 || o.stdout != "" {
		t.Errorf("with nothing to show: exit code %d, %q", o.code, o.stdout)
	}
	if list := operator.ps(t); len(list) != 0 {
		t.Errorf("with nothing to show: %v", list)
	}
	g := startGateway(t)
	s := g.newSession()
	s.shareRuntime()
	// A name, and an argument, that would move the cursor and colour the screen.
	argv := append(node(s.dir, "serve", "daemon", "setsid/plain"), "--token=hunter2", "plain\x1b[31m")
	argv = argv[:len(argv)-2]
	s.spawn(setup{flags: polite("--name=files\x1b[2J")}, argv...)
	s.waitReady()
	theirs := startGatewayAs(t, nobody).newSession()
	theirs.shareRuntime()
	theirs.spawn(setup{flags: polite("--name=theirs")}, node(theirs.dir, "serve")...)
	theirs.waitReady()
	for _, each := range []*session{s, theirs} {
		each.ids = []string{each.ownRecord()}
	}

	list := operator.ps(t)
	if len(list) != 2 || len(list[0].Tree) != 0 {
		t.Fatalf("%+v, want two sessions without their trees", list)
	}
	one := list[0]
	if one.ID != s.id() || one.Name != "files\x1b[2J" || one.State != "running" || one.Server.PID != s.server || one.Gateway.PID != g.pid ||
		one.Procs != 4 || one.MemoryBytes == 0 || one.CPUPercent == nil || one.AgeSeconds == nil || one.GatewayState != "alive" ||
		!strings.HasSuffix(one.GatewayCommand, "fixture gateway") || len(one.Args) == 0 {
		t.Errorf("%+v", one)
	}
	psTree(t, s)
	psText(t, s, g)
	if own := (caller{uid: nobody}).ps(t); len(own) != 1 || own[0].Name != "theirs" {
		t.Errorf("another user sees %+v", own)
	}
	if o := operator.run(t, "ps", "more"); o.code != 2 {
		t.Errorf("with an argument: exit code %d", o.code)
	}
	endNicely(theirs.gw, theirs)
	endNicely(g, s)
}

func psTree(t *testing.T, s *session) {
	t.Helper()
	tree := operator.ps(t, "--tree")[0].Tree
	want := map[int]bool{}
	for _, p := range s.members() {
		want[p.pid] = p.pid != s.pid && p.pid != s.supervisor()
	}
	for _, n := range tree {
		if !want[n.PID] || describe(n.PID).ppid != n.PPID {
			t.Errorf("the tree has %+v", n)
		}
	}
	if len(tree) != 4 || tree[0].PID != s.server || tree[0].Depth != 0 {
		t.Errorf("the tree is %+v, want 4 processes below %d", tree, s.server)
	}
}

func psText(t *testing.T, s *session, g *gateway) {
	t.Helper()
	gateway := decimalString(g.pid) + ` fixture`
	for _, tree := range []bool{false, true} {
		args, above, column := []string{"ps"}, `^`, gateway+` +`
		if tree {
			args, above, column = []string{"ps", "--tree"}, `^`+gateway+"\n", ``
		}
		line := regexp.MustCompile(`(?m)` + above + `root +` + s.id() + ` +files\S+ +running +` + column + decimalString(s.server) + ` +4 +0 +\S+[KMG] +\S+% +\d+s +\S*fixture node`)
		o := operator.run(t, args...)
		if !line.MatchString(o.stdout) || strings.ContainsAny(o.stdout, "\x1b\r\x07") {
			t.Errorf("%q: want %v, and no escapes:\n%q", args, line, o.stdout)
		}
		if rows := strings.Count(o.stdout, "\n"); tree && rows != 1+2+2+4+1 {
			t.Errorf("%d lines, want a head, two gateways, their sessions and these' 4 + 1 processes:\n%s", rows, o.stdout)
		}
	}
}

// On a terminal of 80 columns each line fits.
func TestPsOnATerminal(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).named("files", "serve")
	y := small(t, nil, "ps")
	y.typed("\n")
	for _, text := range []string{"COMMAND", s.id()[:8], "…"} {
		y.expect(text)
	}
	_ = y.cmd.Wait()
	endNicely(s.gw, s)
}

// A session that ends is shown as such, with the cause, until it is gone.
func TestPsEnding(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.spawn(setup{flags: []string{"--eof-grace=100ms", "--term-grace=20s"}}, node(s.dir, "serve,ignore-eof,ignore-term")...)
	s.waitReady()
	s.closeStdin()
	s.awaitState(t, "ending")
	list := operator.ps(t)
	if len(list) != 1 || list[0].State != "ending" || list[0].Cause != "stdin-closed" {
		t.Errorf("%+v, want one that is ending for stdin-closed", list)
	}
	if o := operator.run(t, "ps"); !strings.Contains(o.stdout, "ending (stdin-closed)") {
		t.Errorf("want the cause:\n%s", o.stdout)
	}
	_ = syscall.Kill(s.server, syscall.SIGKILL)
	s.waitDead()
	awaitTrue(t, "the end of the record", func() bool { return len(s.records()) == 0 })
	if list := operator.ps(t); len(list) != 0 {
		t.Errorf("after the end: %+v", list)
	}
}

// Sessions whose supervisor is dead are not shown: they are for reap.
func TestPsHidesDead(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.spawn(setup{flags: polite()}, node(s.dir, "serve", "daemon")...)
	s.waitReady()
	killPair(t, s.pid)
	if list := operator.ps(t); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	operator.reap(t, 0, "--kill")
	s.swept()
}

// A session that lives and cannot be read is named, and the exit code says that not all is known: to its own user as to root.
func TestPsUnread(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, owner := range []int{0, nobody} {
		s := startGatewayAs(t, owner).named("a", "serve")
		whole := s.rawRecord(s.id())
		record := filepath.Join(s.recordDir(), s.id()+".json")
		put(t, owner, record, []byte("{"))
		for _, c := range []caller{operator, {uid: owner}} {
			for _, args := range [][]string{{"ps"}, {"ps", "--json"}, {"stop", "--all", "--all-users"}, {"stop", "--name=a", "--all-users"}} {
				o := c.run(t, args...)
				if o.code != 2 || !strings.Contains(o.stderr, "session "+s.id()) || args[len(args)-1] == "--json" && !strings.Contains(o.stdout, "session "+s.id()) {
					t.Errorf("owner %d, %d: %v: exit code %d, %s%s", owner, c.uid, args, o.code, o.stdout, o.stderr)
				}
			}
		}
		if !s.whole(4) {
			t.Error("it was touched")
		}
		other := s.gw.named("b", "serve")
		if o := operator.run(t, "stop", "--all-users", other.id()); o.code != 0 {
			t.Errorf("by its id: exit code %d, %s", o.code, o.stderr)
		}
		other.waitDead()
		put(t, owner, record, []byte(whole))
		if o := operator.run(t, "stop", "--all", "--all-users"); o.code != 0 { // the control
			t.Errorf("when it can be read again: exit code %d, %s", o.code, o.stderr)
		}
		s.waitDead()
	}
}

// In another time namespace the kernel tells other start times. What lives is shown as living there too, and is not ended.
func TestPsInTimeNamespace(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	_, err := os.Stat("/proc/self/ns/time")
	testkit.Need(t, err == nil, "time namespaces (Linux 5.6)")
	elsewhere := []string{lookPath(t, "unshare"), "--time", "--boottime=100000", "--"}
	g := startGateway(t)
	s := g.newSession()
	s.shareRuntime()
	s.spawn(setup{flags: polite("--cgroup=off")}, node(s.dir, "serve", "daemon", "setsid")...)
	s.waitReady()
	there := g.newSession()
	there.shareRuntime()
	there.spawn(setup{bare: true}, append(elsewhere, there.wrap(polite("--cgroup=off"), node(there.dir, "serve", "daemon", "setsid")...)...)...)
	there.waitReady()
	settle(t)
	for _, where := range [][]string{nil, elsewhere} {
		run := func(args ...string) outcome {
			cmd := operator.command(args...)
			if where != nil {
				cmd.Path, cmd.Args = where[0], append(slices.Clone(where), cmd.Args...)
			}
			return finish(t, cmd)
		}
		var list struct{ Sessions []shown }
		o := run("ps", "--json", "--tree")
		if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || len(list.Sessions) != 2 {
			t.Fatalf("%v: %v, %s%s", where, err, o.stdout, o.stderr)
		}
		for _, l := range list.Sessions {
			if l.GatewayState != "alive" || l.Procs < 3 || *l.AgeSeconds > 600 {
				t.Errorf("%v: gateway %s, %d processes, %d s old", where, l.GatewayState, l.Procs, *l.AgeSeconds)
			}
		}
		if o := run("reap", "--kill"); o.code != 0 || !s.whole(5) || !there.whole(5) {
			t.Errorf("%v: reap: exit code %d, %s%s", where, o.code, o.stdout, o.stderr)
		}
	}
	killPair(t, s.pid)
	settle(t)
	o := finish(t, exec.Command(elsewhere[0], append(elsewhere[1:], tether, "reap", "--kill")...))
	s.waitDead()
	if o.code != 0 {
		t.Errorf("a dead session: exit code %d, %s%s", o.code, o.stdout, o.stderr)
	}
	endNicely(g, there)
}
