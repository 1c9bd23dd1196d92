package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// The supervisor is killed, and something that the anchor might want for its recovery is gone as well.

// lostLogs are log files that can be opened once.
var lostLogs = []struct {
	name string
	make func(s *session) (path string, lose func())
}{
	{"directory removed", func(s *session) (string, func()) {
		dir := filepath.Join(s.Dir, "logs")
		s.ok(os.Mkdir(dir, 0o777))
		return filepath.Join(dir, "log"), func() { s.ok(os.RemoveAll(dir)) }
	}},
	{"FIFO without a reader", func(s *session) (string, func()) {
		path := filepath.Join(s.Dir, "log.fifo")
		s.ok(syscall.Mkfifo(path, 0o600))
		r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		s.ok(err)
		return path, func() { s.ok(r.Close()) }
	}},
}

func TestRecoveryWithoutItsLog(t *testing.T) {
	t.Parallel()
	for _, l := range lostLogs {
		for _, cgroup := range []string{"auto", "off"} {
			t.Run(l.name+"/cgroup="+cgroup, func(t *testing.T) {
				t.Parallel()
				s := startGateway(t).newSession()
				path, lose := l.make(s)
				with := setup{Flags: resisting("--cgroup="+cgroup, "--log-file="+path)}
				s.Spawn(with, node(s.Dir, "serve,ignore-term", escapees...)...)
				s.WaitReady()
				supervisor := s.Supervisor()
				lose()
				s.ok(syscall.Kill(supervisor, syscall.SIGKILL))
				wantExit(t, s.Wait(), "exit 137")
				s.Gone()
				// It is told where the gateway reads.
				said, err := os.ReadFile(s.Stderr)
				s.ok(err)
				if !strings.Contains(string(said), path) || !strings.Contains(string(said), `"cause":"supervisor-gone"`) ||
					!strings.Contains(string(said), `"leaked":false`) {
					t.Errorf("standard error: %s", said)
				}
			})
		}
	}
}

// nestedProcs makes cgroups below each other and returns the deepest, by the descriptors of a process: no path is as long.
func nestedProcs(t *testing.T, leaf string, depth int) {
	t.Helper()
	dir, err := unix.Open(leaf, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(t, err)
	defer func() { _ = unix.Close(dir) }()
	name := strings.Repeat("n", 200)
	for range depth {
		ok(t, unix.Mkdirat(dir, name, 0o755))
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		ok(t, err)
		_ = unix.Close(dir)
		dir = next
	}
}

// removeNested is for a test that has failed.
func removeNested(leaf string) {
	_ = exec.Command("find", leaf, "-depth", "-type", "d", "-delete").Run()
}

// A server may nest cgroups deeper than any path is long.
func TestNestedLeafIsRemoved(t *testing.T) {
	t.Parallel()
	needCgroup(t)
	for _, killed := range []bool{false, true} {
		t.Run(map[bool]string{true: "supervisor killed", false: "stdin closed"}[killed], func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{Flags: polite()}, "serve", "daemon", "setsid,closefds,clearenv,chdir")
			leaf := stage.CgroupLeaf(s.ID())
			t.Cleanup(func() { removeNested(leaf) })
			nestedProcs(t, leaf, 60)
			if killed {
				s.ok(syscall.Kill(s.Supervisor(), syscall.SIGKILL))
			} else {
				s.closeStdin()
			}
			s.Gone()
			if c := s.Ended(); *c.Leaked {
				t.Errorf("%+v", c)
			}
		})
	}
}

// pidIn reads a pid that a script has written.
func (s *session) pidIn(file string) int {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.Dir, file))
	s.ok(err)
	return number(s.t, strings.TrimSpace(string(b)))
}

// The log goes to a pipe that only its reader may open: it is not let go of.
func TestLogToAnotherUsersPipe(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	t.Parallel()
	for _, flags := range [][]string{nil} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			t.Parallel()
			s := startGateway(t).newSession()
			r, w, err := os.Pipe()
			s.ok(err)
			argv := append([]string{tether, "run", "--log-level=info", "--log-format=json"}, quick(flags...)...)
			argv = inWorld(append(append(argv, "--"), "/bin/sh", "-c", "exit 3"), "uid=65534")
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Stderr = w
			_ = cmd.Run()
			s.ok(w.Close())
			said, err := io.ReadAll(r)
			s.ok(err)
			var last struct{ Message string }
			lines := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
			if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Message != "session ended" {
				t.Errorf("standard error: %s", said)
			}
		})
	}
}
