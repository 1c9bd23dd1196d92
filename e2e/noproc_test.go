package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
)

// Without /proc there are no descendants to be seen. What cannot be promised is told.

func TestNoProc(t *testing.T) {
	t.Parallel()
	s := world{steps: []string{"noproc"}}.gateway(t).newSession()
	s.Spawn(setup{}, "/bin/sh", "-c", "echo started >"+filepath.Join(s.Dir, "notes"))
	wantExit(t, s.Wait(), "exit 0")
	s.Gone()
	if s.Notes() != "started\n" {
		t.Errorf("the server noted %q", s.Notes())
	}
	if !s.logged(func(line []byte) bool { return strings.Contains(string(line), "ps may not show this session") }) {
		t.Error("the log does not tell of it")
	}
}

// With the /proc of another pid namespace, the processes that are seen are others than those that are signalled.
func TestForeignProc(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	t.Parallel()
	for _, mount := range []string{"", "mount --make-rprivate / && mount -t proc proc /proc; "} {
		for _, run := range []string{"exec ", ""} { // as process 1, and with an anchor
			cmd := exec.Command("sh", "-c", mount+run+tether+` run -- true; exit $?`)
			cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
			o := finish(t, cmd)
			if refused := o.code == 125 && strings.Contains(o.stderr, "another pid namespace"); refused != (mount == "") {
				t.Errorf("%s%s: %+v", mount, run, o)
			}
		}
	}
}

// Another user's process may be hidden. Then it can be said that it is there, but not which process it is. One that is kept
// does not account for it.
func TestHiddenSurvivor(t *testing.T) {
	testkit.Need(t, testkit.Root)
	t.Parallel()
	name := setuidCopy(t)
	for _, c := range []struct {
		tree         []string
		hidden, kept int
	}{
		{[]string{"setsid,setuid,comm=" + name, "daemon"}, 1, 0},
		{[]string{"setsid,setuid,comm=" + name, "daemon", "daemon,keep"}, 1, 1},
		{[]string{"daemon", "daemon,keep"}, 0, 1},
	} {
		g := world{steps: []string{"hidepid"}, uid: nobody}.gateway(t)
		s := g.tree(setup{Flags: resisting(politeRoot)}, "serve", c.tree...)
		s.WaitReady()
		s.Signal(syscall.SIGTERM)
		wantExit(t, s.Wait(), "exit 143")
		e := s.Ended()
		if left := s.Members(); len(left) != c.hidden+c.kept || len(e.Kept) != c.kept {
			t.Fatalf("%v: left: %v, kept: %v, want %d of another user", c.tree, left, e.Kept, c.hidden)
		}
		if *e.Leaked != (c.hidden > 0) {
			t.Errorf("%v: %d processes are hidden, and the log says: survivors = %v, leaked = %v", c.tree, c.hidden, e.Survivors, *e.Leaked)
		}
		if got := s.Records(); len(got) != c.hidden {
			t.Errorf("%v: records = %v, want the session's for a later sweep if one is hidden", c.tree, got)
		}
		s.EndAll()
	}
}
