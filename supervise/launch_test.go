package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

// A server that cannot be executed says nothing about its cgroup. An earlier tree may have left a process there, so the
// leaf is handed on, and the next tree uses it.
func TestFailedExecKeepsTheLeaf(t *testing.T) {
	for _, how := range []Cgroup{CgroupAuto, CgroupRequire} {
		t.Run(string(how), func(t *testing.T) {
			_, err := testkit.WritableCgroup()
			testkit.Need(t, err == nil, "a cgroup v2 hierarchy that can be written")
			script := filepath.Join(t.TempDir(), "server")
			testkit.WriteProgram(t, script, []byte("#!/nonexistent\n"))
			s := &Session{}
			s.hand.ID, s.hand.Mailbox = session.NewID(), -1
			s.left.scope.Root = os.Getpid()
			s.opts = Options{Command: []string{script}, Cgroup: how, Containers: ContainersOff}
			if err := s.newTree().contain(); err != nil {
				t.Fatal(err)
			}
			end := occupy(t, s.tree)
			for range 2 {
				if err := s.tree.start(script, false); !errors.Is(err, unix.ENOENT) || errors.Is(err, errRequired) || s.tree.code != ExitNotFound {
					t.Errorf("%v, code %d", err, s.tree.code)
				}
				if s.closeTree(); s.left.leaf == nil || s.leafLeft {
					t.Fatalf("the leaf is lost; left: %t", s.leafLeft)
				}
				s.newTree()
			}
			end()
			if s.closeTree(); s.left.leaf != nil || s.record.Cgroup != "" {
				t.Errorf("the leaf is left: %+v, %q", s.left.leaf, s.record.Cgroup)
			}
		})
	}
}

// What a kept process has started in the leaf since it was listed, while containers were removed, is moved out as well. Or it would
// be found there without what it is kept for.
func TestLeafIsRemovedThoughTheKeptGoOn(t *testing.T) {
	_, err := testkit.WritableCgroup()
	testkit.Need(t, err == nil, "a cgroup v2 hierarchy that can be written")
	s := &Session{}
	s.hand.ID, s.hand.Mailbox = session.NewID(), -1
	s.left.scope.Root, s.left.scope.Keep = os.Getpid(), []string{"sh"}
	s.opts = Options{Cgroup: CgroupRequire, Containers: ContainersOff}
	if err := s.newTree().contain(); err != nil {
		t.Fatal(err)
	}
	pid, launch, end := testkit.Keeper(t, s.tree.scope.Leaf.FD())
	var r proc.Reader
	kept, err := r.Stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	child := launch()
	leaf := s.tree.removeLeaf([]proc.Stat{kept})
	if st, err := r.Stat(child); err != nil || st.Dead() {
		t.Errorf("the child has ended: %v", err)
	}
	end()
	if leaf != nil {
		t.Errorf("left: %s, %v", leaf.Dir, leaf.RemoveSoon(removeTries))
	}
}

// The leaf of a session that a process to keep has started stays, and so does this one: its record says that it is over.
func TestLeafStaysForTheSessionOfTheKept(t *testing.T) {
	_, err := testkit.WritableCgroup()
	testkit.Need(t, err == nil, "a cgroup v2 hierarchy that can be written")
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	s := &Session{}
	s.hand.ID, s.hand.Mailbox = session.NewID(), -1
	if s.lease, err = dir.Take(s.hand.ID); err != nil {
		t.Fatal(err)
	}
	s.left.scope.Root, s.left.scope.Keep = os.Getpid(), []string{"sh"}
	s.opts = Options{Cgroup: CgroupRequire, Containers: ContainersOff}
	if err := s.newTree().contain(); err != nil {
		t.Fatal(err)
	}
	outer := s.tree.scope.Leaf.Dir
	inner, err := cgroup.Create(outer, leafName("fedcba9876543210"))
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	_, launch, end := testkit.Keeper(t, s.tree.scope.Leaf.FD())
	child := launch()
	t.Cleanup(func() {
		end()
		if leaf, err := cgroup.Open(outer); err == nil {
			_ = leaf.RemoveSoon(int(testkit.Patience / time.Millisecond))
			leaf.Close()
		}
	})
	if err := os.WriteFile(inner.Dir+"/cgroup.procs", []byte(strconv.Itoa(child)), 0); err != nil {
		t.Fatal(err)
	}
	s.finish()
	if !inner.Has(child) {
		t.Error("it was moved out of the leaf of its session")
	}
	if r, err := dir.Read(s.hand.ID); err != nil || r.State != session.StateKept || r.Cgroup != outer {
		t.Errorf("its record: %q, %q, %v", r.State, r.Cgroup, err)
	}
}

// occupy puts a process into the leaf of a tree, until end is called.
func occupy(t *testing.T, tr *tree) (end func()) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	end = func() {
		in.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	fd, err := tr.scope.Leaf.OpenProcs()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(strconv.Itoa(cmd.Process.Pid))); err != nil {
		t.Fatal(err)
	}
	return end
}
