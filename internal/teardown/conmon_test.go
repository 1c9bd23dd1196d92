package teardown

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
)

// What cleans up after a container is told from what runs in it, and from a podman that is its client.
func TestCleaners(t *testing.T) {
	of := func(pid, parent int, name string) proc.Stat {
		return proc.Stat{ID: proc.ID{PID: pid}, PPID: parent, Comm: name}
	}
	members := []proc.Stat{
		of(10, 1, "podman"), of(11, 10, "helper"), // the client
		of(20, 1, "conmon"), of(21, 20, "server"), of(22, 21, "podman"), // the container
		of(30, 20, "podman"), of(31, 30, "crun"), of(32, 20, "conmon"), of(33, 31, "umount"), // the end of it
		of(40, 1, "sh"), of(41, 42, "loop"), of(42, 41, "loop"),
	}
	cleans, _ := cleaners(members)
	if got := slices.Sorted(maps.Keys(cleans)); !slices.Equal(got, []int{20, 30, 31, 32, 33}) {
		t.Errorf("got %v", got)
	}
	// The container of 32 is another user's. Once it was asked, it cleans up.
	for first, want := range map[bool][]int{true: {20, 30, 31, 33}, false: {20, 30, 31, 32, 33}} {
		if got := slices.Sorted(maps.Keys(unasked(members, first))); !slices.Equal(got, want) {
			t.Errorf("at first %t: not asked %v", first, got)
		}
	}
}

// A batch leaves conmon the time to clean up after a container that has ended, also after one that had to be killed. The
// control is one that takes too long.
func TestBatchLetsConmonCleanUp(t *testing.T) {
	for name, c := range map[string]struct {
		payload, cleanup string
		cleaned          bool
	}{
		"ends":     {"exec sleep 1000", "", true},
		"killed":   {`trap "" TERM; while :; do sleep 0.1; done`, "", true},
		"too slow": {"exec sleep 1000", "read x <>never;", false},
	} {
		t.Run(name, func(t *testing.T) {
			own(t)
			dir := t.TempDir()
			conmon := filepath.Join(dir, "conmon")
			sh, err := os.ReadFile("/bin/sh")
			if err != nil {
				t.Fatal(err)
			}
			testkit.WriteProgram(t, conmon, sh)
			cmd := exec.Command(conmon, "-c", `mkfifo never; sh -c ': >up; `+c.payload+`' & wait; `+c.cleanup+` : >cleaned`)
			cmd.Dir = dir
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() { _ = cmd.Wait(); close(done) }()
			has := func(file string) bool { _, err := os.Stat(filepath.Join(dir, file)); return err == nil }
			testkit.Until(t, "the container", func() bool { return has("up") })
			g := &Group{Seeds: ids(t, cmd.Process.Pid), UID: os.Getuid()}
			b := Batch{Groups: []*Group{g}, Since: now(t)}
			if err := b.End(Grace{Term: 300 * time.Millisecond, Kill: testkit.Patience}); err != nil || len(g.Survivors) > 0 {
				t.Errorf("%v, survivors %+v", err, g.Survivors)
			}
			<-done
			if has("cleaned") != c.cleaned {
				t.Errorf("cleaned up: %v, want %v", !c.cleaned, c.cleaned)
			}
		})
	}
}

// A container that is older than the session is not the session's. What is executed in it is.
func TestHoldsOlder(t *testing.T) {
	dir := t.TempDir() + "/c1"
	if err := os.MkdirAll(dir+"/userdata/e1", 0o700); err != nil {
		t.Fatal(err)
	}
	conmon := func(bundle string) []string {
		return []string{"/usr/bin/conmon", "--api-version", "1", "-b", bundle, "-n", "mine"}
	}
	after, before := time.Now().Add(time.Minute), time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		comm  string
		args  []string
		began time.Time
		want  bool
	}{
		"older":           {"conmon", conmon(dir + "/userdata"), after, true},
		"younger":         {"conmon", conmon(dir + "/userdata"), before, false},
		"executed":        {"conmon", conmon(dir + "/userdata/e1"), after, false},
		"another program": {"node", conmon(dir + "/userdata"), after, false},
		"not there":       {"conmon", conmon(dir + "/none/userdata"), after, false},
		"no bundle":       {"conmon", []string{"conmon", "-b"}, after, false},
		"no session":      {"conmon", conmon(dir + "/userdata"), time.Time{}, false},
	} {
		if got := HoldsOlder(c.comm, c.args, c.began); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A container from before the session is kept with all below it: it is not the session's. One of the session is not. Where nothing is
// kept neither is: to be such a container's conmon is a process's own word.
func TestOlderContainerIsNoMember(t *testing.T) {
	for name, c := range map[string]struct {
		began time.Duration
		older bool
	}{"older": {time.Hour, true}, "the session's": {-time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			m := own(t)
			dir := t.TempDir()
			if err := os.Mkdir(dir+"/userdata", 0o700); err != nil {
				t.Fatal(err)
			}
			conmon := filepath.Join(dir, "conmon")
			sh, err := os.ReadFile("/bin/sh")
			if err != nil {
				t.Fatal(err)
			}
			testkit.WriteProgram(t, conmon, sh)
			cmd := exec.Command(conmon, "-c", "sleep 1000 & wait", "conmon", "-b", dir+"/userdata")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			began := time.Now().Add(c.began)
			for _, nothing := range []bool{false, true} {
				m.Began, m.KeepNothing = began, nothing
				testkit.Until(t, "both of the container", func() bool {
					end, kept, err := m.Members()
					if c.older && !nothing {
						end, kept = kept, end
					}
					return err == nil && len(end) == 2 && len(kept) == 0
				})
				g := &Group{Seeds: ids(t, cmd.Process.Pid), UID: os.Getuid(), Began: began, KeepNothing: nothing}
				b := Batch{Groups: []*Group{g}, Since: now(t)}
				b.start()
				if end, kept, err := b.members(); err != nil || (len(end) == 0) != (c.older && !nothing) || (len(kept) == 2) != (c.older && !nothing) {
					t.Errorf("in a batch: members %v, kept %v, %v", pids(end), pids(kept), err)
				}
			}
			(&Membership{Root: os.Getpid()}).killUntilEmpty(t)
			_ = cmd.Wait()
		})
	}
}
