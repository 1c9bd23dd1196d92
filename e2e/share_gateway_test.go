package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// run starts a session of the shared server below a gateway.
func (s *sharing) run(g *gateway, stdio string) *session {
	s.t.Helper()
	r := g.newSession()
	req := []string{"spawn", r.Name, "stdio=" + stdio, "stderr=" + r.Stderr, "dir=" + s.Dir, "env=XDG_RUNTIME_DIR=" + s.Runtime}
	for _, e := range s.env {
		req = append(req, "env="+e)
	}
	argv := slices.Concat([]string{tether, "run"}, s.flags, []string{"--"}, s.command)
	r.PID = number(s.t, g.Call(slices.Concat(req, []string{"--"}, argv)...))
	return r
}

// The case that this was made for: agent runs of one gateway overlap, end and start in each other's way. One server is
// started, no call is lost, and it ends with its gateway.
func TestShareOverlappingRuns(t *testing.T) {
	t.Parallel()
	s, g := share(t), startGateway(t)
	var runs []*session
	id := 0
	for i := range 8 {
		next := s.run(g, stdios[i%2])
		next.Write(initialize(version) + "\n")
		if len(runs) == 3 {
			// It ends while the next one begins, with a call on its way.
			id++
			runs[0].Write(toolCall(id, "echo", "last") + "\n")
			runs[0].closeStdin()
			runs[0].wantAnswer(runs[0].Read(), id)
		}
		next.wantAnswer(next.Read(), 0)
		next.Write(initialized + "\n")
		if len(runs) == 3 {
			wantExit(t, runs[0].Wait(), "exit 0")
			runs = runs[1:]
		}
		runs = append(runs, next)
		for _, r := range runs {
			id++
			r.echo(id)
		}
	}
	if n := s.starts(); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	g.Kill()
	s.wantGone()
}

// Gateways do not share, unless asked to: then the server outlives the one that started it.
func TestShareScope(t *testing.T) {
	t.Parallel()
	for scope, servers := range map[string]int{"gateway": 2, "user": 1} {
		t.Run(scope, func(t *testing.T) {
			if scope == "user" {
				testkit.Long(t)
			}
			t.Parallel()
			s := share(t, "--share-scope="+scope)
			one, other := startGateway(t), startGateway(t)
			a, b := s.run(one, "pipe"), s.run(other, "pipe")
			for i, r := range []*session{a, b} {
				r.greet()
				r.echo(i + 1)
			}
			if n := s.starts(); n != servers {
				t.Errorf("%d servers, want %d", n, servers)
			}
			one.Kill()
			if scope == "gateway" {
				testkit.Until(t, "one host is left", func() bool { return len(s.with("\x00__host\x00")) == 1 })
			}
			b.echo(9)
			if n := s.starts(); n != servers {
				t.Errorf("%d servers, want %d", n, servers)
			}
			other.Kill()
			if scope == "user" {
				kill(t, s.host(), unix.SIGTERM)
			}
			s.wantGone()
		})
	}
}

// end stops all hosts.
func (s *sharing) end() {
	s.t.Helper()
	s.endHosts()
	s.wantGone()
}

// endHosts asks all hosts to end.
func (s *sharing) endHosts() {
	for _, p := range s.with("\x00__host\x00") {
		// One that is for a single session may be about to end.
		_ = unix.Kill(p.PID, unix.SIGTERM)
	}
}

// A full server sends the next session to another one. It has as many as its host may have descriptors for: four each, beside its own.
func TestShareMax(t *testing.T) {
	t.Parallel()
	s := share(t)
	s.outer = []string{"prlimit", "--nofile=40:40"}
	for range 3 {
		s.client().echo()
	}
	if n, hosts := s.starts(), len(s.with("\x00__host\x00")); n != 2 || hosts != 2 {
		t.Errorf("%d servers and %d hosts, want 2", n, hosts)
	}
	s.end()
}

// tether runs one of the other commands in the runtime directory.
func (s *sharing) tether(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(tether, args...)
	cmd.Env = append(cmd.Environ(), "XDG_RUNTIME_DIR="+s.Runtime)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Errorf("mcp-tether %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ps shows who shares with whom: those of one class of handshake. stop ends a shared server with its sessions.
func TestSharePsStop(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := share(t, "--name=shared")
	a, b := s.client(), s.client()
	odd := s.attach()
	odd.greet("2024-11-05")
	odd.echo()
	a.echo()
	var list struct {
		Sessions []struct {
			ID      string
			Gateway struct{ PID int }
			Sharing *struct {
				Sessions []struct{ PID int }
			}
		}
	}
	testkit.Until(t, "ps knows all", func() bool {
		list.Sessions = nil
		ok(t, json.Unmarshal([]byte(s.tether("ps", "--json")), &list))
		return len(list.Sessions) == 2 && list.Sessions[0].Sharing != nil && len(list.Sessions[0].Sharing.Sessions) == 2 &&
			list.Sessions[1].Sharing != nil && len(list.Sessions[1].Sharing.Sessions) == 1
	})
	shared, other := list.Sessions[0], list.Sessions[1]
	if pid := other.Sharing.Sessions[0].PID; pid != odd.cmd.Process.Pid {
		t.Errorf("ps: %+v and %+v", *shared.Sharing, *other.Sharing)
	}
	if text := s.tether("ps"); strings.Count(text, "shared by 2") != 1 || !strings.Contains(text, strconv.Itoa(b.cmd.Process.Pid)) {
		t.Errorf("ps: %s", text)
	}
	s.tether("stop", shared.ID)
	a.wantExit(0)
	b.wantExit(0)
	odd.echo()
	s.tether("stop", other.ID)
	odd.wantExit(0)
	s.wantGone()
}

// Where nothing can be shared, a session has a server of its own, and says why.
func TestShareCannot(t *testing.T) {
	t.Parallel()
	t.Run("open directory", func(t *testing.T) {
		t.Parallel()
		wantOwnServer(t, "", "is open to others", 0o777)
	})
	// Found out after the front has begun to read: seen to answer each message with an error, and to have no guard.
	t.Run("no inode", func(t *testing.T) {
		testkit.Long(t)
		testkit.Need(t, testkit.Namespaces)
		t.Parallel()
		const mount = `unshare --mount sh -c 'mount -t tmpfs -o nr_inodes=4,mode=700 none "$XDG_RUNTIME_DIR"; exec "$@"' sh`
		wantOwnServer(t, mount, "no space left", 0o700)
	})
}

// wantOwnServer starts a session as the rest of a line of the shell. The runtime directory has these permissions.
func wantOwnServer(t *testing.T, before, why string, dir os.FileMode) {
	t.Helper()
	s := share(t)
	s.flags = slices.DeleteFunc(s.flags, func(f string) bool { return strings.HasPrefix(f, "--log-file=") })
	sessions := filepath.Join(s.Runtime, "mcp-tether")
	ok(t, errors.Join(os.Mkdir(sessions, 0o700), os.Chmod(sessions, dir)))
	// Limits of files bind the fixture's notes as well.
	s.command = []string{"sh", "-c", "cat", s.Dir}
	argv := slices.Concat([]string{tether, "run", "--stdout-guard"}, s.flags, []string{"--"}, s.command)
	cmd := exec.Command("sh", append([]string{"-c", before + ` "$@"`, "sh"}, argv...)...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+s.Runtime)
	const message = `{"method":"as it is"}` + "\n"
	cmd.Stdin = strings.NewReader(message + "no message\n")
	if o := finish(t, cmd); o.code != 0 || o.stdout != message || !strings.Contains(o.stderr, "no message\n") || !strings.Contains(o.stderr, why) {
		t.Errorf("%+v", o)
	}
	s.awaitNone()
}
