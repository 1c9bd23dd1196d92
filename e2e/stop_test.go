package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
)

// named starts a session with a name, in the directory where every stop looks. Its graces are polite, but for these flags.
func (g *gateway) named(name string, root string, flags ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: polite(append(flags, "--name="+name)...)}, node(s.Dir, root, "daemon", "setsid,closefds,clearenv")...)
	s.WaitReady()
	s.IDs = []string{s.ownRecord()}
	return s
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
	if o := operator.run(t, "ps", "-q"); o.code != 0 || o.stdout != s.ID()+"\n" {
		t.Errorf("ps as root: %+v", o)
	}
	if o := operator.run(t, "ps", s.ID()[:4]); o.code != 0 || !strings.Contains(o.stdout, s.ID()) || strings.Count(o.stdout, "\nPROCESS ") != 3 {
		t.Errorf("ps of one: %+v", o)
	}
	if o := operator.run(t, "ps", "nosuch"); o.code != 2 || !strings.Contains(o.stderr, "no living session") {
		t.Errorf("ps of none: %+v", o)
	}
	if o := operator.run(t, "stop", "--name=theirs"); o.code != 0 || o.stdout != "ended "+s.ID()+" theirs\n" {
		t.Errorf("%+v", o)
	}
	s.WaitDead()
}

// On a terminal, stop --all asks.
func TestStopAllAsks(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).named("a", "serve")
	if o := operator.run(t, "__complete", "stop", s.ID()[:4]); o.stdout != s.ID()+"\ta\n" {
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
	s.WaitDead()
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
	if o := user.run(t, "stop", gone, s.ID()); o.code != 2 || !s.whole(4) {
		t.Errorf("a user who is mistaken: exit code %d, %s", o.code, o.stderr)
	}
	as := strconv.Itoa(nobody)
	for _, c := range []struct {
		ids  []string
		code int
		want map[string]bool // which of them have ended
	}{
		{[]string{gone}, 0, map[string]bool{gone: true}},
		{[]string{gone, anID, s.ID()}, 1, map[string]bool{gone: true, anID: false, s.ID(): true}},
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
	s.WaitDead()
}
