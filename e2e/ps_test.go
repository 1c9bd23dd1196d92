package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

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

// A session that lives and cannot be read is named, and the exit code says that not all is known: to its own user as to root.
func TestPsUnread(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, owner := range []int{0, nobody} {
		s := startGatewayAs(t, owner).named("a", "serve")
		whole := s.rawRecord(s.ID())
		record := filepath.Join(s.recordDir(), s.ID()+".json")
		put(t, owner, record, []byte("{"))
		for _, c := range []caller{operator, {uid: owner}} {
			for _, args := range [][]string{{"ps"}, {"ps", "--json"}, {"stop", "--all"}, {"stop", "--name=a"}} {
				o := c.run(t, args...)
				if o.code != 2 || !strings.Contains(o.stderr, "session "+s.ID()) || args[len(args)-1] == "--json" && !strings.Contains(o.stdout, "session "+s.ID()) {
					t.Errorf("owner %d, %d: %v: exit code %d, %s%s", owner, c.uid, args, o.code, o.stdout, o.stderr)
				}
			}
		}
		if !s.whole(4) {
			t.Error("it was touched")
		}
		other := s.gw.named("b", "serve")
		if o := operator.run(t, "stop", other.ID()); o.code != 0 {
			t.Errorf("by its id: exit code %d, %s", o.code, o.stderr)
		}
		other.WaitDead()
		put(t, owner, record, []byte(whole))
		if o := operator.run(t, "stop", "--all"); o.code != 0 { // the control
			t.Errorf("when it can be read again: exit code %d, %s", o.code, o.stderr)
		}
		s.WaitDead()
	}
}

// In another time namespace the kernel tells other start times. What lives is not ended from there, nor what lives there.
func TestReapFromTimeNamespace(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	_, err := os.Stat("/proc/self/ns/time")
	testkit.Lacks(t, testkit.Kernel, err != nil, "time namespaces (Linux 5.6)")
	elsewhere := []string{lookPath(t, "unshare"), "--time", "--boottime=100000", "--"}
	g := startGateway(t)
	here, there := g.newSession(), g.newSession()
	here.Spawn(setup{Flags: polite("--cgroup=off")}, node(here.Dir, "serve", "daemon", "setsid")...)
	here.WaitReady()
	there.Spawn(setup{Bare: true}, append(elsewhere, there.Wrap(polite("--cgroup=off"), node(there.Dir, "serve", "daemon", "setsid")...)...)...)
	there.WaitReady()
	settle(t)
	for _, where := range [][]string{nil, elsewhere} { // No record of them is seen: the marks alone would have to spare them.
		cmd := operator.command("reap", "--kill")
		if where != nil {
			cmd.Path, cmd.Args = where[0], append(slices.Clone(where), cmd.Args...)
		}
		if o := finish(t, cmd); !here.whole(5) || !there.whole(5) {
			t.Errorf("%v: exit code %d, %s%s", where, o.code, o.stdout, o.stderr)
		}
	}
	endNicely(g, here, there)
}
