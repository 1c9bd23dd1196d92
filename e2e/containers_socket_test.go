package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
)

// The socket between a session and its engine, and what it costs sessions that have no use for it.

// engineHost asks the server for its DOCKER_HOST.
func (s *session) engineHost() string {
	s.t.Helper()
	answer := s.ask(`{"id":1,"method":"env","name":"DOCKER_HOST"}`)
	_, rest, _ := strings.Cut(answer, `"result":"`)
	host, _, _ := strings.Cut(rest, `"`)
	return host
}

func TestProxySocketIsItsOwnersOnly(t *testing.T) {
	e := engineFor(t)
	testkit.Need(t, os.Geteuid() == 0, "root")
	t.Parallel()
	for _, long := range []bool{false, true} {
		t.Run(fmt.Sprintf("long path %v", long), func(t *testing.T) {
			t.Parallel()
			s := startGateway(t).newSession()
			if long {
				s.runtime = filepath.Join(s.runtime, strings.Repeat("x", 100))
			} else {
				s.runtime = realDir(t)
			}
			s.ok(os.MkdirAll(s.runtime, 0o711))
			s.ok(os.Chmod(s.runtime, 0o711))
			s.spawn(setup{flags: polite(), env: boxEnviron(e, s)}, node(s.dir, "serve")...)
			s.waitReady()
			host := s.engineHost()
			if host == e.host || !strings.HasPrefix(host, "unix:///") {
				t.Fatalf("the server's DOCKER_HOST is %q", host)
			}
			checkOwnersOnly(t, strings.TrimPrefix(host, "unix://"))
			checkConnects(t, host)
			s.gw.kill()
			s.gone()
			if _, err := os.Lstat(strings.TrimPrefix(host, "unix://")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket is left: %v", err)
			}
		})
	}
}

func checkOwnersOnly(t *testing.T, sock string) {
	t.Helper()
	for path, want := range map[string]os.FileMode{sock: os.ModeSocket | 0o600, filepath.Dir(sock): os.ModeDir | 0o700} {
		st, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode()&^os.ModeSticky != want || st.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s: mode %v of user %d, want %v of user 0", path, st.Mode(), st.Sys().(*syscall.Stat_t).Uid, want)
		}
	}
}

// checkConnects expects that the owner gets through to the engine, and another user does not.
func checkConnects(t *testing.T, host string) {
	t.Helper()
	for uid, allowed := range map[uint32]bool{0: true, nobody: false} {
		cmd := exec.Command("docker", "version")
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+host, "DOCKER_CONFIG=/nonexistent")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if o := finish(t, cmd); (o.code == 0) != allowed || !allowed && !strings.Contains(o.stderr, "permission denied") {
			t.Errorf("user %d: exit code %d: %s", uid, o.code, o.stderr)
		}
	}
}

// An engine that nobody uses is not dialled, neither while the session runs nor when it ends.
func TestIdleEngineIsNotDialled(t *testing.T) {
	t.Parallel()
	for _, end := range boxEndings {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			dir := realDir(t)
			l, err := net.Listen("unix", filepath.Join(dir, "engine.sock"))
			if err != nil {
				t.Fatal(err)
			}
			dialled := make(chan error, 1)
			go func() {
				_, err := l.Accept()
				dialled <- err
			}()
			s := startGateway(t).newSession()
			s.spawn(setup{flags: polite(), env: []string{"DOCKER_HOST=unix://" + l.Addr().String()}}, node(s.dir, "serve", "daemon")...)
			s.waitReady()
			if host := s.engineHost(); !strings.HasSuffix(host, ".sock") || strings.HasSuffix(host, "engine.sock") {
				t.Errorf("the server's DOCKER_HOST is %q, want that of a proxy", host)
			}
			end.end(s)
			s.gone()
			_ = l.Close()
			if err := <-dialled; !errors.Is(err, net.ErrClosed) {
				t.Errorf("the engine was dialled (%v)", err)
			}
		})
	}
}

// Without an engine in sight there is no socket, no further process or thread, and no system call of the network.
func TestNoEngineInSightCostsNothing(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	testkit.Long(t)
	testkit.Need(t, has("strace"), "strace")
	trace := filepath.Join(t.TempDir(), "trace")
	s := startGateway(t).newSession()
	run := s.wrap(polite(), node(s.dir, "serve")...)
	s.spawn(setup{bare: true, env: []string{"HOME=" + s.dir}},
		append([]string{lookPath(t, "strace"), "-f", "-qq", "-e", "trace=%network", "-o", trace}, run...)...)
	s.waitReady()
	if host := s.engineHost(); host != "" {
		t.Errorf("the server's DOCKER_HOST is %q", host)
	}
	if socks, _ := filepath.Glob(filepath.Join(s.runtime, "mcp-tether", "*.sock")); len(socks) > 0 {
		t.Errorf("there is %v", socks)
	}
	if all := s.members(); len(all) != 4 {
		t.Errorf("processes: %v, want strace, anchor, supervisor and server", all)
	}
	s.closeStdin()
	s.waitDead()
	if calls, err := os.ReadFile(trace); err != nil || strings.Contains(string(calls), "socket(") {
		t.Errorf("%v\n%s", err, calls)
	}
}

// Supervisors with and without an engine in sight are the same to the kernel, but for one socket.
func TestEngineInSightCostsOneSocket(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	start := func(flag string) *session {
		s := startGateway(t).newSession()
		s.spawn(setup{flags: polite(flag), env: boxEnviron(e, s)}, node(s.dir, "serve")...)
		s.waitReady()
		return s
	}
	count := func(s *session) (processes, files int) {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.supervisor()))
		return len(s.members()), len(open)
	}
	off, on := start("--containers=off"), start("--containers=auto")
	// A supervisor that looks at something has it open for a moment.
	testkit.Until(t, "as many processes, and one more descriptor", func() bool {
		offProcesses, offFiles := count(off)
		onProcesses, onFiles := count(on)
		return onProcesses == offProcesses && onFiles == offFiles+1
	})
}
