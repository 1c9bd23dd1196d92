package reap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/cgroup"
	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

func TestGather(t *testing.T) {
	testkit.Until(t, "a clock tick after our start", func() bool {
		var r proc.Reader
		own, err := r.Stat(os.Getpid())
		now, nowErr := proc.Now()
		return err == nil && nowErr == nil && now > own.Start
	})
	h, err := gather(t.TempDir(), Engines{None: true}, func(err error) { t.Log(err) })
	if err != nil {
		t.Fatal(err)
	}
	var self *process
	for i := range h.Procs {
		if h.Procs[i].PID == os.Getpid() {
			self = &h.Procs[i]
		}
	}
	if self == nil || self.UID != os.Getuid() || self.PPID != os.Getppid() || len(self.Args) == 0 || self.Args[0] != os.Args[0] {
		t.Fatalf("ourselves: %+v", self)
	}
	if h.Self != os.Getpid() || self.Start >= h.Since {
		t.Errorf("the pass takes itself for a newborn: %d, %d", self.Start, h.Since)
	}
	if h.Lives(self.ID) != proc.Alive || h.Lives(proc.ID{PID: self.PID, Start: self.Start - 1}) != proc.Dead || h.Lives(proc.ID{}) != proc.Unknown ||
		h.Lives(proc.ID{PID: 1 << 22, Start: 1}) != proc.Dead || !h.Inside(os.Getpid()) {
		t.Error("odd answers about ourselves")
	}
}

// That a session keeps processes comes with its mark, and means nothing without it.
func TestGatherKeeps(t *testing.T) {
	start := func(env ...string) int {
		cmd := exec.Command("sleep", "60")
		cmd.Env = env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	id, kept := session.EnvID+"="+deadID, session.EnvKept+"=1"
	want := map[int]bool{start(id): false, start(kept): false, start(id, kept): true, start(kept, "A=b", id): true}
	h, err := gather(t.TempDir(), Engines{None: true}, func(err error) { t.Log(err) })
	if err != nil {
		t.Fatal(err)
	}
	for pid, w := range want {
		if p := h.proc(pid); p.Keeps != w {
			t.Errorf("%+v: keeps %t", p, p.Keeps)
		}
	}
}

// In a pid namespace that has the outer /proc ("unshare --pid --fork"), the pids found are not those that are signalled.
func TestGatherOtherTable(t *testing.T) {
	const inside = "MCP_TETHER_TEST_INSIDE"
	if os.Getenv(inside) != "" {
		if _, err := gather(t.TempDir(), Engines{None: true}, func(error) {}); !errors.Is(err, proc.ErrOtherTable) {
			t.Errorf("got %v", err)
		}
		return
	}
	testkit.Need(t, testkit.Namespaces)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestGatherOtherTable$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A record that cannot be read makes the pass incomplete. The lease still says whether its session lives.
func TestGatherDamagedRecords(t *testing.T) {
	for name, c := range map[string]struct {
		record             string
		held               bool
		unknown, supervise bool
	}{
		"damaged":                  {record: "{", unknown: true},
		"damaged, of a living one": {record: "{", held: true, unknown: true, supervise: true},
		"of an earlier version":    {record: `{"version":1,"id":"` + deadID + `"}`, unknown: true},
		"empty":                    {},
	} {
		s := deadSession(t, "", false)
		file := filepath.Join(s.Dir.Name, deadID)
		if err := os.WriteFile(file+".json", []byte(c.record), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.held {
			lease, err := s.Dir.Take(deadID)
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
		}
		h, err := gather(filepath.Dir(s.Dir.Name), Engines{None: true}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(h.Sessions, func(s storedSession) bool { return s.ID == deadID })
		if i < 0 {
			t.Errorf("%s: not found", name)
			continue
		}
		got := h.Sessions[i]
		unknown := slices.ContainsFunc(h.Unknown, func(why string) bool { return strings.Contains(why, deadID) })
		if (got.Unread != nil) != (c.record != "") || unknown != c.unknown {
			t.Errorf("%s: %+v, unknown %q", name, got, h.Unknown)
		}
		found := find(h, Rules{Session: deadID})
		if c.supervise && len(found) > 0 || !c.supervise && (len(found) != 1 || found[0].proven(true) != (c.record == "")) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// Where records may be missing, no session is judged.
func TestGatherClosedDirectory(t *testing.T) {
	s := deadSession(t, "", false)
	if err := os.Chmod(s.Dir.Name, 0o770); err != nil {
		t.Fatal(err)
	}
	h, err := gather(filepath.Dir(s.Dir.Name), Engines{None: true}, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	if !h.Blind || !strings.Contains(strings.Join(h.Unknown, ";"), s.Dir.Name) || len(find(h, Rules{Session: deadID})) > 0 {
		t.Errorf("blind %v, unknown %q", h.Blind, h.Unknown)
	}
}

// A pass that has not read all cgroups is not complete. One that has found no cgroup v2 is.
func TestGatherNotesTheSearch(t *testing.T) {
	odd := errors.New("odd")
	for err, want := range map[error]struct{ unknown, warned int }{
		fmt.Errorf("search: %w", cgroup.ErrNotSearched): {1, 0}, odd: {0, 1}, cgroup.ErrNone: {}, nil: {},
	} {
		var (
			h      machine
			warned int
		)
		h.noteSearch(err, func(error) { warned++ })
		if len(h.Unknown) != want.unknown || warned != want.warned {
			t.Errorf("%v: unknown %q, %d warnings", err, h.Unknown, warned)
		}
	}
}

// A recorded leaf that cannot be read is still the session's, and the pass is not complete. One that is gone, or
// belongs to another user, is none.
func TestGatherLeafWithoutDescriptors(t *testing.T) {
	at := "/sys/fs/cgroup/mcp-tether-" + deadID
	var dead storedSession
	dead.Record = session.Record{ID: deadID, Processes: session.Processes{Cgroup: at}}
	h := &machine{UID: os.Getuid(), Sessions: []storedSession{dead}}
	if h.addRecordedLeaves(); len(h.Leaves)+len(h.Unknown) > 0 {
		t.Errorf("gone: %+v, %q", h.Leaves, h.Unknown)
	}
	testkit.WithFiles(t, 0, h.addRecordedLeaves)
	if len(h.Leaves) != 1 || h.Leaves[0].Dir != at || h.Leaves[0].UID != os.Getuid() || len(h.Unknown) != 1 {
		t.Errorf("%+v, %q", h.Leaves, h.Unknown)
	}
	h = &machine{UID: 1 << 30}
	if dir, err := cgroup.Current(); err == nil {
		if h.addLeaf(dir, deadID, false); len(h.Leaves)+len(h.Unknown) > 0 {
			t.Errorf("another user's: %+v, %q", h.Leaves, h.Unknown)
		}
	}
}
