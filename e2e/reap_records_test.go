package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Records that say nothing, or lie. A sweep trusts none further than its owner, and never waits for one.

// page is a record as a test may write it.
type page struct {
	Version    int       `json:"version"`
	ID         string    `json:"id"`
	Host       origin    `json:"host"`
	UID        int       `json:"uid"`
	Started    time.Time `json:"started"`
	State      string    `json:"state"`
	Gateway    mark      `json:"gateway"`
	Parent     mark      `json:"parent"`
	Anchor     mark      `json:"anchor"`
	Supervisor mark      `json:"supervisor"`
	Server     mark      `json:"server"`
	Args       []string  `json:"args"`
	Cgroup     string    `json:"cgroup,omitempty"`
	Name       string    `json:"name,omitempty"`
	Engine     string    `json:"engine,omitempty"`
	EngineUsed bool      `json:"engine_used,omitempty"`
	Socket     string    `json:"socket,omitempty"`
	Keep       []string  `json:"keep,omitempty"`
}

type origin struct {
	Boot  string `json:"boot"`
	PIDNS uint64 `json:"pidns"`
}

type mark struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

const anID = "0123456789abcdef"

// here is the host that a record of this test comes from.
func here(t *testing.T) origin {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ok(t, err)
	var st unix.Stat_t
	ok(t, unix.Stat("/proc/self/ns/pid", &st))
	return origin{strings.TrimSpace(string(boot)), st.Ino}
}

// markOf is the identity of a living process.
func markOf(t *testing.T, pid int) mark {
	t.Helper()
	p := stage.Glance(pid)
	if p.Dead() {
		t.Fatalf("process %d is gone", pid)
	}
	return mark{pid, uint64(number(t, p.Start))}
}

// deadMark is the identity of a process that has ended.
func deadMark(t *testing.T) mark {
	t.Helper()
	p := startInnocent(t, 0)
	m := markOf(t, p.pid)
	p.end()
	return m
}

// forge writes a record that blames the process, with a lease that nobody holds, as the user would.
func forge(t *testing.T, user int, dir string, change func(*page), victim int) {
	t.Helper()
	p := page{
		Version: 2, ID: anID, Host: here(t), UID: user, Started: time.Now(), State: "running", Args: []string{"server"},
		Gateway: deadMark(t), Parent: deadMark(t), Anchor: deadMark(t), Supervisor: deadMark(t), Server: markOf(t, victim),
	}
	if change != nil {
		change(&p)
	}
	b, err := json.Marshal(p)
	ok(t, err)
	ownDir(t, user, dir)
	put(t, user, filepath.Join(dir, p.ID+".json"), b)
}

func ownDir(t *testing.T, user int, dir string) {
	t.Helper()
	ok(t, os.MkdirAll(dir, 0o700))
	ok(t, os.Chown(dir, user, user))
}

func put(t *testing.T, user int, file string, b []byte) {
	t.Helper()
	ok(t, os.WriteFile(file, b, 0o600))
	ok(t, os.Chown(file, user, user))
}

const theirDir = "/tmp/mcp-tether-65534"

// The control: a record like these is acted upon when it is true.
func TestReapTrustsOwnRecord(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, user := range []int{0, nobody} {
		victim := startInnocent(t, user)
		outgrow(t)
		forge(t, user, dirOf(user), nil, victim.pid)
		if r := operator.reap(t, 0, "--kill"); r.classes() != "record" || r.Findings[0].Result != "ended" {
			t.Errorf("found %v", r.Findings)
		}
		if victim.answers() == nil {
			t.Error("the process of a dead session lives")
		}
	}
}

// Another user's record that names processes of root, in every way it may.
func TestReapForgedByAnotherUser(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	fake := filepath.Join(theirDir, "mcp-tether-"+anID)
	forgeries := map[string]func(*page){
		"as it is":    nil,
		"claims root": func(p *page) { p.UID = 0 },
		"fake leaf":   func(p *page) { p.Cgroup = fake },
	}
	for name, change := range forgeries {
		t.Run(name, func(t *testing.T) {
			victim := startInnocent(t, 0)
			forge(t, nobody, theirDir, change, victim.pid)
			fakeLeaf(t, fake, victim.pid)
			if r := operator.run(t, "reap", "--json", "--kill", "--unwrapped"); r.code == 2 {
				t.Errorf("exit code %d, %s", r.code, r.stderr)
			}
			victim.wantAlive(t, name)
			ok(t, os.RemoveAll(theirDir))
		})
	}
}

// fakeLeaf looks like a cgroup, names a process of root, and holds up whoever opens cgroup.events.
func fakeLeaf(t *testing.T, dir string, pid int) {
	t.Helper()
	ownDir(t, nobody, dir)
	put(t, nobody, filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)+"\n"))
	ok(t, syscall.Mkfifo(filepath.Join(dir, "cgroup.events"), 0o666))
	ok(t, os.Symlink("/run/precious", filepath.Join(dir, "cgroup.kill")))
}

// killWithAnchor kills the gateway and both wrappers, none of which sees another's end.
func (g *gateway) killWithAnchor(t *testing.T, anchor int) {
	t.Helper()
	freeze(t, anchor)
	for _, pid := range childrenOf(anchor) {
		freeze(t, pid)
	}
	g.Kill()
	killPair(t, anchor)
}

// hold takes a lock for the rest of the test.
func hold(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	ok(t, err)
	t.Cleanup(func() { _ = f.Close() })
	ok(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
}

// A record of no known boot is named, and left alone until it is to be forgotten.
func TestReapForget(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	victim := startInnocent(t, 0)
	forge(t, 0, "/run/mcp-tether", func(p *page) { p.Host.Boot = "" }, victim.pid)
	if r := operator.reap(t, 1, "--kill"); r.classes() != "suspect" || r.Findings[0].Result != "listed" {
		t.Errorf("found %v", r.Findings)
	}
	if left, _ := filepath.Glob("/run/mcp-tether/0*"); len(left) != 1 {
		t.Errorf("left: %v, want the record", left)
	}
	victim.wantAlive(t, "a record of no known boot")
	for i, want := range []int{0, 2} {
		if o := operator.run(t, "reap", "--forget="+anID); o.code != want {
			t.Errorf("forgotten once more %d times: exit code %d, %s", i, o.code, o.stderr)
		}
	}
	forge(t, nobody, theirDir, nil, victim.pid)
	hold(t, filepath.Join(theirDir, anID+".json"))
	for says, by := range map[string]caller{"held by a living supervisor": {uid: nobody}, "sudo -u USER": operator} {
		if o := by.run(t, "reap", "--forget="+anID); o.code != 2 || !strings.Contains(o.stderr, says) {
			t.Errorf("uid %d has forgotten a living session: %d %s", by.uid, o.code, o.stderr)
		}
	}
	// Another pass of that user is under way.
	put(t, nobody, filepath.Join(theirDir, "reap.lock"), nil)
	hold(t, filepath.Join(theirDir, "reap.lock"))
	if o := operator.run(t, "reap", "--kill", "--json"); o.code != 2 || !strings.Contains(o.stderr, "another reap is under way") {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
}

// An empty cgroup that no record names goes once it is old, and doctor names it until then. The controls are a young one, and that of
// a living session.
func TestReapAbandonedLeaf(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: polite("--cgroup=auto")}, node(s.Dir, "serve", "daemon")...)
	s.WaitReady()
	living := stage.CgroupLeaf(s.ID())
	testkit.Lacks(t, testkit.Cgroup, living == "", "a cgroup v2 hierarchy that can be written")
	ok(t, os.RemoveAll(s.recordDir()))
	old, young := filepath.Join(filepath.Dir(living), "mcp-tether-"+anID), filepath.Join(filepath.Dir(living), "mcp-tether-"+strings.Repeat("b", 16))
	for _, dir := range []string{old, young} {
		ok(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { _ = os.Remove(dir) })
		if dir == old {
			settle(t)
		}
	}
	if o := operator.run(t, "doctor"); o.code != 1 || !strings.Contains(o.stdout, "reap --kill") {
		t.Errorf("doctor: exit code %d, %s", o.code, o.stdout)
	}
	if r := operator.reap(t, 0, "--kill"); r.classes() != "cgroup" || r.Findings[0].Result != "removed" {
		t.Errorf("found %v", r.Findings)
	}
	if left := allLeaves(); len(left) != 2 || slices.Contains(left, old) {
		t.Errorf("left: %v, want %s and %s", left, living, young)
	}
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
}
