package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
)

func decimalString(n int) string { return strconv.Itoa(n) }

// named starts a session with a name, in the directory where every stop looks. Its graces are polite, but for these flags.
func (g *gateway) named(name string, root string, flags ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.shareRuntime()
	s.spawn(setup{flags: polite(append(flags, "--name="+name)...)}, node(s.dir, root, "daemon", "setsid,closefds,clearenv")...)
	s.waitReady()
	s.ids = []string{s.ownRecord()}
	return s
}

// selections of sessions a and b (of one gateway) and c (of another), and which of them end.
var selections = []struct {
	name string
	args func(a, b, c *session) []string
	ends string
}{
	{"id", func(a, _, _ *session) []string { return []string{a.id()} }, "a"},
	{"beginning of the id", func(_, b, _ *session) []string { return []string{b.id()[:10]} }, "b"},
	{"two ids", func(a, _, c *session) []string { return []string{a.id(), c.id()} }, "ac"},
	{"name", func(_, _, _ *session) []string { return []string{"--name=b"} }, "b"},
	{"gateway", func(a, _, _ *session) []string { return []string{"--gateway=" + decimalString(a.gw.pid)} }, "ab"},
	{"all", func(_, _, _ *session) []string { return []string{"--all"} }, "abc"},
}

func TestStop(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, sel := range selections {
		t.Run(sel.name, func(t *testing.T) {
			g := startGateway(t)
			all := map[string]*session{"a": g.named("a", "serve"), "b": g.named("b", "serve,ignore-term", resisting()...), "c": startGateway(t).named("c", "serve")}
			o := operator.run(t, append([]string{"stop"}, sel.args(all["a"], all["b"], all["c"])...)...)
			if o.code != 0 || strings.Count(o.stdout, "\n") != len(sel.ends) || o.stderr != "" {
				t.Errorf("exit code %d: %s%s", o.code, o.stdout, o.stderr)
			}
			for name, s := range all {
				if told := strings.Contains(o.stdout, "ended "+s.id()+" "+name+"\n"); told != strings.Contains(sel.ends, name) {
					t.Errorf("%s: said to be ended %v: %s", name, told, o.stdout)
				}
				if !strings.Contains(sel.ends, name) {
					if !s.whole(4) { // two of the wrapper, the server, the daemon
						t.Errorf("%s was touched", name)
					}
					continue
				}
				// Nothing is left when stop returns, but for the anchor's last moment.
				s.waitDead()
				if c := s.endedWhole("signal"); c.Signal != "SIGTERM" || s.rawRecord(s.id()) != "" {
					t.Errorf("%s ended by %q, record %q", name, c.Signal, s.rawRecord(s.id()))
				}
			}
			operator.run(t, "stop", "--all")
		})
	}
}

func TestStopMistakes(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	mistakes := map[string][]string{
		"nothing said":  {},
		"no such id":    {"0123456789abcdef"},
		"no such name":  {"--name=x"},
		"no such owner": {"--gateway=1"},
		"bad flag":      {"--no-such-flag"},
	}
	for name, args := range mistakes {
		if o := operator.run(t, append([]string{"stop"}, args...)...); o.code != 2 || o.stderr == "" {
			t.Errorf("%s: exit code %d, %q", name, o.code, o.stderr)
		}
	}
	g := startGateway(t)
	a := g.named("a", "serve")
	b := g.named("b", "serve")
	for name, args := range map[string][]string{"everybody's beginning": {""}, "one of two": {a.id(), "0123456789abcdef"}} {
		if o := operator.run(t, append([]string{"stop"}, args...)...); o.code != 2 || o.stderr == "" {
			t.Errorf("%s: exit code %d, %q", name, o.code, o.stderr)
		}
	}
	if o := (caller{uid: nobody}).run(t, "stop", "--all"); o.code == 1 {
		t.Errorf("another user: exit code %d, %s", o.code, o.stderr)
	}
	if !a.whole(4) || !b.whole(4) {
		t.Error("a session was touched by mistake")
	}
	endNicely(g, a, b)
}

// Root ends sessions of its own, and those of others when it says so. Where there is none, that is said.
func TestStopOwnOrAllUsers(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	if o := operator.run(t, "stop", "--all"); o.code != 0 || !strings.Contains(o.stderr, "no living sessions") {
		t.Errorf("none: %+v", o)
	}
	s := startGatewayAs(t, nobody).named("theirs", "serve")
	for _, args := range [][]string{{"--all"}, {"--name=theirs"}, {s.id()}} {
		o := operator.run(t, append([]string{"stop"}, args...)...)
		if (o.code != 0) != (args[0] != "--all") || o.code != 0 && !strings.Contains(o.stderr, "--all-users") || !s.whole(4) {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := operator.run(t, "stop", "--all-users", "--name=theirs"); o.code != 0 || o.stdout != "ended "+s.id()+" theirs\n" {
		t.Errorf("%+v", o)
	}
	s.waitDead()
}

// On a terminal, stop --all asks.
func TestStopAllAsks(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).named("a", "serve")
	if o := operator.run(t, "__complete", "stop", s.id()[:4]); o.stdout != s.id()+"\ta\n" {
		t.Errorf("the shell is offered %+v", o)
	}
	for _, answer := range []string{"", "n", "y"} {
		r, w, err := os.Pipe()
		ok(t, err)
		y := openTTY(t, nil, w, tether, "stop", "--all")
		y.expect("Stop 1 session? [y/N] ")
		y.typed(answer + "\n")
		if err := y.cmd.Wait(); (err == nil) != (answer == "y") {
			t.Errorf("%q: %v", answer, err)
		}
		if answer != "y" && !s.whole(4) {
			t.Errorf("%q: it was touched", answer)
		}
		_ = r.Close()
	}
	s.waitDead()
}

// asUser is the hidden word of a child that works for a user in the place of root. It is followed by whom the child becomes.
const asUser = "__as"

// Root's child is told to stop what root has seen alive. What has ended since then keeps nothing from being stopped.
func TestStopSomeHaveEnded(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const gone = "fedcba9876543210"
	user := caller{uid: nobody}
	s := startGatewayAs(t, nobody).named("a", "serve")
	dead := startInnocent(t, nobody)
	forge(t, nobody, dirOf(nobody), nil, dead.pid) // ended, but for a process
	if o := user.run(t, "stop", gone, s.id()); o.code != 2 || !s.whole(4) {
		t.Errorf("a user who is mistaken: exit code %d, %s", o.code, o.stderr)
	}
	as := fmt.Sprintf("%d,%d,0,", nobody, nobody)
	for _, c := range []struct {
		ids  []string
		code int
		want map[string]bool // which of them have ended
	}{
		{[]string{gone}, 0, map[string]bool{gone: true}},
		{[]string{gone, anID, s.id()}, 1, map[string]bool{gone: true, anID: false, s.id(): true}},
	} {
		o := operator.run(t, append([]string{asUser, as, "stop", "--json"}, c.ids...)...)
		var answer struct {
			Stopped []struct {
				ID    string
				Ended bool
			}
		}
		if err := json.Unmarshal([]byte(o.stdout), &answer); err != nil {
			t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
		}
		got := map[string]bool{}
		for _, one := range answer.Stopped {
			got[one.ID] = one.Ended
		}
		if o.code != c.code || !maps.Equal(got, c.want) {
			t.Errorf("stop %v: exit code %d, %v, want %v", c.ids, o.code, got, c.want)
		}
	}
	s.waitDead()
}

// A stop that asks again, or is out of patience, does not shorten the grace.
func TestStopStubborn(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).named("a", "serve,ignore-term", "--term-grace=5s")
	for range 2 {
		o := operator.run(t, "stop", "--json", "--timeout=50ms", "--name=a")
		var r struct {
			Version int
			Stopped []struct {
				ID, Name, Error string
				Ended           bool
			}
		}
		if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
			t.Fatalf("%v: %s", err, o.stdout)
		}
		if o.code != 1 || r.Version != 1 || len(r.Stopped) != 1 || r.Stopped[0].Ended || r.Stopped[0].Error == "" || r.Stopped[0].ID != s.id() {
			t.Errorf("exit code %d, %+v", o.code, r)
		}
	}
	if o := operator.run(t, "stop", s.id()); o.code != 0 {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	s.waitDead()
	if c := s.endedWhole("signal"); *c.TeardownMS < 4750 {
		t.Errorf("the teardown took %.0f ms, its grace is 5 s", *c.TeardownMS)
	}
}
