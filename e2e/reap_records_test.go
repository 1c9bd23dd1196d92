package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
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
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		t.Fatal(err)
	}
	return origin{strings.TrimSpace(string(boot)), st.Ino}
}

// markOf is the identity of a living process.
func markOf(t *testing.T, pid int) mark {
	t.Helper()
	k, ok := readKin(pid)
	if !ok {
		t.Fatalf("process %d is gone", pid)
	}
	return mark{pid, uint64(number(t, k.start))}
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
		Version: 1, ID: anID, Host: here(t), UID: user, Started: time.Now(), State: "running", Args: []string{"server"},
		Gateway: deadMark(t), Parent: deadMark(t), Anchor: deadMark(t), Supervisor: deadMark(t), Server: markOf(t, victim),
	}
	if change != nil {
		change(&p)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	ownDir(t, user, dir)
	put(t, user, filepath.Join(dir, p.ID+".json"), b)
	put(t, user, filepath.Join(dir, p.ID+".lock"), nil)
}

func ownDir(t *testing.T, user int, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, user int, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, user, user); err != nil {
		t.Fatal(err)
	}
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
		dir := map[int]string{0: "/run/mcp-tether", nobody: theirDir}[user]
		forge(t, user, dir, nil, victim.pid)
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
		"as it is":     nil,
		"claims root":  func(p *page) { p.UID = 0 },
		"pid 1":        func(p *page) { p.Server = mark{1, p.Server.Start} },
		"leaf of root": func(p *page) { p.Cgroup = "/sys/fs/cgroup" },
		"fake leaf":    func(p *page) { p.Cgroup = fake },
		"fake path":    func(p *page) { p.Cgroup = fake + "/../../../sys/fs/cgroup/mcp-tether-" + anID },
	}
	for name, change := range forgeries {
		t.Run(name, func(t *testing.T) {
			victim := startInnocent(t, 0)
			forge(t, nobody, theirDir, change, victim.pid)
			fakeLeaf(t, fake, victim.pid)
			for _, args := range [][]string{{"--kill"}, {"--kill", "--unwrapped"}, {"--kill", "--session=" + anID}} {
				r := operator.run(t, append([]string{"reap", "--json", "--timeout=20s"}, args...)...)
				if r.code == 2 || strings.Contains(r.stderr, "gave up") {
					t.Errorf("%q: exit code %d, %s", args, r.code, r.stderr)
				}
			}
			victim.wantAlive(t, name)
			if err := os.RemoveAll(theirDir); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// fakeLeaf looks like a cgroup, names a process of root, and holds up whoever opens cgroup.events.
func fakeLeaf(t *testing.T, dir string, pid int) {
	t.Helper()
	ownDir(t, nobody, dir)
	put(t, nobody, filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)+"\n"))
	if err := syscall.Mkfifo(filepath.Join(dir, "cgroup.events"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/run/precious", filepath.Join(dir, "cgroup.kill")); err != nil {
		t.Fatal(err)
	}
}

// Nor does a user's record keep a dead session of root from being swept.
func TestReapNotPreventedByAnotherUser(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, cgroup := range []string{"auto", "off"} {
		for _, held := range []bool{false, true} {
			t.Run("cgroup="+cgroup, func(t *testing.T) {
				s := startGateway(t).newSession() // its record is out of the sweep's reach
				s.spawn(setup{flags: deaf("--cgroup=" + cgroup)}, node(s.dir, "serve,ignore-eof", "daemon", "setsid")...)
				s.waitReady()
				s.gw.killWithAnchor(t, s.pid)
				forge(t, nobody, theirDir, func(p *page) { p.ID = s.id() }, os.Getpid())
				if held {
					hold(t, filepath.Join(theirDir, s.id()+".lock"))
				}
				settle(t)
				operator.run(t, "reap", "--kill", "--term-grace=300ms")
				if s.alive() {
					t.Errorf("lease held: %v; not swept: %v", held, s.members())
				}
				s.endAll()
				_ = os.RemoveAll(theirDir)
				operator.run(t, "reap", "--kill")
			})
		}
	}
}

// killWithAnchor kills the gateway and both wrappers.
func (g *gateway) killWithAnchor(t *testing.T, anchor int) {
	t.Helper()
	freeze(t, anchor)
	g.kill()
	killPair(t, anchor)
}

// hold takes a lock for the rest of the test.
func hold(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// Records that cannot be read, beside a dead session: they are told of, and that one is swept.
func TestReapOddRecords(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	victim := startInnocent(t, 0)
	const dir, file = "/run/mcp-tether", "/run/mcp-tether/" + anID + ".json"
	odd := map[string]func(t *testing.T){
		"symlink": func(t *testing.T) {
			forge(t, 0, "/run/elsewhere", nil, victim.pid)
			ownDir(t, 0, dir)
			put(t, 0, dir+"/"+anID+".lock", nil)
			if err := os.Symlink("/run/elsewhere/"+anID+".json", file); err != nil {
				t.Fatal(err)
			}
		},
		"FIFO": func(t *testing.T) { odder(t, victim.pid, func() error { return syscall.Mkfifo(file, 0o600) }) },
		"directory": func(t *testing.T) {
			odder(t, victim.pid, func() error { return os.Mkdir(file, 0o700) })
		},
		"huge": func(t *testing.T) {
			forge(t, 0, dir, func(p *page) { p.Args = []string{strings.Repeat("x", 1<<20)} }, victim.pid)
		},
		"sparse":    func(t *testing.T) { forge(t, 0, dir, nil, victim.pid); truncate(t, file, 1<<40) },
		"truncated": func(t *testing.T) { forge(t, 0, dir, nil, victim.pid); truncate(t, file, 100) },
		"empty":     func(t *testing.T) { forge(t, 0, dir, nil, victim.pid); truncate(t, file, 0) },
		"future":    func(t *testing.T) { forge(t, 0, dir, func(p *page) { p.Version = 2 }, victim.pid) },
		"misnamed": func(t *testing.T) {
			forge(t, 0, dir, nil, victim.pid)
			put(t, 0, dir+"/fedcba9876543210.lock", nil)
			if err := os.Rename(file, dir+"/fedcba9876543210.json"); err != nil {
				t.Fatal(err)
			}
		},
		"lock is a FIFO": func(t *testing.T) {
			forge(t, 0, dir, nil, victim.pid)
			oddLock(t, func(name string) error { return syscall.Mkfifo(name, 0o600) })
		},
		"lock is a link": func(t *testing.T) {
			forge(t, 0, dir, nil, victim.pid)
			oddLock(t, func(name string) error { return os.Symlink("/dev/null", name) })
		},
		"no lock, and the supervisor lives": func(t *testing.T) {
			forge(t, 0, dir, func(p *page) { p.Supervisor = p.Server }, victim.pid)
			oddLock(t, func(string) error { return nil })
		},
		"no lock, and no supervisor": func(t *testing.T) {
			forge(t, 0, dir, func(p *page) { p.Supervisor = mark{} }, victim.pid)
			oddLock(t, func(string) error { return nil })
		},
		"other boot": func(t *testing.T) {
			forge(t, 0, dir, func(p *page) { p.Host.Boot = strings.Repeat("0", 36) }, victim.pid)
		},
		"other namespace":   func(t *testing.T) { forge(t, 0, dir, func(p *page) { p.Host.PIDNS++ }, victim.pid) },
		"server pid reused": func(t *testing.T) { forge(t, 0, dir, func(p *page) { p.Server.Start-- }, victim.pid) },
		"anchor lives":      func(t *testing.T) { forge(t, 0, dir, func(p *page) { p.Anchor = p.Server }, victim.pid) },
		"uid of another":    func(t *testing.T) { forge(t, 0, dir, func(p *page) { p.UID = nobody }, victim.pid) },
	}
	readable := []string{
		"lock is a FIFO", "lock is a link", "no lock, and the supervisor lives", "no lock, and no supervisor", "other boot", "other namespace",
		"server pid reused", "anchor lives", "uid of another",
	}
	for name, write := range odd {
		t.Run(name, func(t *testing.T) {
			s := startGateway(t).newSession()
			s.shareRuntime()
			s.spawn(setup{flags: polite("--cgroup=off")}, node(s.dir, "serve", "daemon")...)
			s.waitReady()
			killPair(t, s.pid)
			write(t)
			o := operator.run(t, "reap", "--kill", "--json", "--timeout=20s", "--term-grace=300ms")
			var r sweep
			// The pass is not complete where a record could not be read.
			unread := strings.Contains(o.stderr, "not complete: ")
			if err := json.Unmarshal([]byte(o.stdout), &r); err != nil || (o.code == 2) != unread || unread != !slices.Contains(readable, name) {
				t.Errorf("exit code %d, %v\n%s%s", o.code, err, o.stdout, o.stderr)
			}
			if _, ok := r.about(victim.pid); ok {
				t.Errorf("found %v", r.Findings)
			}
			victim.wantAlive(t, name)
			s.waitDead()
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What cleans /tmp by age takes the lock, which is older than the record. The supervisor is known by its identity all the same.
func TestReapLockAgedOut(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, user := range []int{0, nobody} {
		victim := startInnocent(t, user)
		outgrow(t)
		forge(t, user, dirOf(user), nil, victim.pid)
		ok(t, os.Remove(filepath.Join(dirOf(user), anID+".lock")))
		if r := operator.reap(t, 0, "--kill"); r.classes() != "record" || r.Findings[0].Result != "ended" || victim.answers() == nil {
			t.Errorf("found %v", r.Findings)
		}
		if left, _ := filepath.Glob(filepath.Join(dirOf(user), anID+".*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// odder replaces the record of a forgery.
func odder(t *testing.T, victim int, by func() error) {
	t.Helper()
	const dir = "/run/mcp-tether"
	forge(t, 0, dir, nil, victim)
	if err := os.Remove(dir + "/" + anID + ".json"); err != nil {
		t.Fatal(err)
	}
	if err := by(); err != nil {
		t.Fatal(err)
	}
}

func oddLock(t *testing.T, by func(name string) error) {
	t.Helper()
	const name = "/run/mcp-tether/" + anID + ".lock"
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := by(name); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, file string, size int64) {
	t.Helper()
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
}

// Everything of a record from before the last boot ended then: it is removed, and no process is looked for.
func TestReapOtherBoot(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	victim := startInnocent(t, 0)
	forge(t, 0, "/run/mcp-tether", func(p *page) { p.Host.Boot = strings.Repeat("0", 36) }, victim.pid)
	r := operator.reap(t, 0, "--kill")
	if len(r.Findings) != 1 || r.Findings[0].Result != "removed" {
		t.Errorf("found %v", r.Findings)
	}
	if left, _ := filepath.Glob("/run/mcp-tether/0*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	victim.wantAlive(t, "a record of another boot")
}

// A record of another pid namespace is named, and left alone until it is to be forgotten.
func TestReapOtherNamespace(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	victim := startInnocent(t, 0)
	forge(t, 0, "/run/mcp-tether", func(p *page) { p.Host.PIDNS++ }, victim.pid)
	if r := operator.reap(t, 1, "--kill"); r.classes() != "suspect" || r.Findings[0].Result != "listed" {
		t.Errorf("found %v", r.Findings)
	}
	if left, _ := filepath.Glob("/run/mcp-tether/0*"); len(left) != 2 {
		t.Errorf("left: %v, want record and lock", left)
	}
	victim.wantAlive(t, "a record of another pid namespace")
	for _, user := range []int{0, nobody} {
		forge(t, user, dirOf(user), func(p *page) { p.Host.PIDNS++ }, victim.pid)
		for i, want := range []int{0, 2} {
			if o := operator.run(t, "reap", "--forget="+anID); o.code != want {
				t.Errorf("forgotten once more %d times by %d: exit code %d, %s", i, user, o.code, o.stderr)
			}
			_ = os.RemoveAll("/run/mcp-tether")
		}
	}
	forge(t, nobody, theirDir, nil, victim.pid)
	hold(t, filepath.Join(theirDir, anID+".lock"))
	if o := operator.run(t, "reap", "--forget="+anID); o.code != 2 || !strings.Contains(o.stderr, "held by a living supervisor") {
		t.Errorf("a living session was forgotten: %d %s", o.code, o.stderr)
	}
	// Another user has written down its id.
	const mallory = nobody - 1
	forge(t, mallory, dirOf(mallory), nil, victim.pid)
	if o := operator.run(t, "reap", "--forget="+anID); o.code != 2 || !strings.Contains(o.stderr, "held by a living supervisor") {
		t.Errorf("with a record of another user, a living session was forgotten: %d %s", o.code, o.stderr)
	}
	// Another pass of that user is under way.
	put(t, nobody, filepath.Join(theirDir, "reap.lock"), nil)
	hold(t, filepath.Join(theirDir, "reap.lock"))
	if o := operator.run(t, "reap", "--kill", "--json"); o.code != 2 || !strings.Contains(o.stderr, "another reap is under way") {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
}

// A session whose socket is below /tmp, because the path of its record's directory is too long for one, is forgotten by
// its record: never while it lives, and then with its socket.
func TestForgetSocketElsewhere(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	victim := startInnocent(t, 0)
	const dir, socket = "/run/mcp-tether", "/tmp/mcp-tether-0/" + anID + ".sock"
	forge(t, 0, dir, func(p *page) { p.Socket = socket }, victim.pid)
	ownDir(t, 0, filepath.Dir(socket))
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lock, err := os.Open(filepath.Join(dir, anID+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if o := operator.run(t, "reap", "--forget="+anID); o.code != 2 {
		t.Errorf("a living session was forgotten: %d %s", o.code, o.stderr)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("a living session has lost its socket: %v", err)
	}
	_ = lock.Close()
	if o := operator.run(t, "reap", "--forget="+anID); o.code != 0 {
		t.Errorf("a dead session was not forgotten: %d %s", o.code, o.stderr)
	}
	left, _ := filepath.Glob(dir + "/0*")
	if _, err := os.Lstat(socket); err == nil || len(left) > 0 {
		t.Errorf("left: %v, socket: %v", left, err)
	}
}

// An empty cgroup that no record names goes once the supervisor that made it is dead, and doctor names it until then. The controls
// are one that nobody has signed, and one whose maker lives.
func TestReapAbandonedLeaf(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.spawn(setup{flags: polite("--cgroup=auto")}, node(s.dir, "serve", "daemon")...)
	s.waitReady()
	leaf := cgroupLeaf(s.id())
	testkit.Need(t, leaf != "", "a cgroup v2 hierarchy that can be written")
	signed := make([]byte, 256)
	n, err := unix.Getxattr(leaf, "user.mcp-tether", signed)
	testkit.Need(t, !errors.Is(err, unix.EOPNOTSUPP), "extended attributes of cgroups (Linux 5.7)")
	killPair(t, s.pid)
	s.endAll()
	s.gw.kill()
	ok(t, os.RemoveAll(s.recordDir()))
	unsigned, living := filepath.Join(filepath.Dir(leaf), "mcp-tether-"+anID), filepath.Join(filepath.Dir(leaf), "mcp-tether-"+strings.Repeat("b", 16))
	for _, dir := range []string{unsigned, living} {
		ok(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	me := markOf(t, os.Getpid())
	maker := fmt.Sprintf("%d:%d:%s:%d", me.PID, me.Start, here(t).Boot, here(t).PIDNS)
	ok(t, unix.Setxattr(living, "user.mcp-tether", []byte(maker), 0))
	settle(t)
	if o := operator.run(t, "doctor"); o.code != 1 || !strings.Contains(o.stdout, "reap --kill") {
		t.Errorf("doctor: exit code %d, %s", o.code, o.stdout)
	}
	if r := operator.reap(t, 0, "--kill"); r.classes() != "cgroup" || r.Findings[0].Result != "removed" {
		t.Errorf("signed %q: found %v", signed[:max(n, 0)], r.Findings)
	}
	if left := allLeaves(); len(left) != 2 || slices.Contains(left, leaf) {
		t.Errorf("left: %v, want %s and %s", left, unsigned, living)
	}
}
