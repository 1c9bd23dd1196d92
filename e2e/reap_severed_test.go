package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"

	"golang.org/x/sys/unix"
)

// Servers that were never wrapped. The other end of its standard input proves that no gateway uses such a server.

// forBoth runs a test over a pipe as root, and over a socketpair as another user.
func forBoth(t *testing.T, test func(t *testing.T, stdio string, user int)) {
	t.Helper()
	if !onOwnHost(t) {
		return
	}
	for stdio, user := range map[string]int{"pipe": 0, "socketpair": nobody} {
		t.Run(fmt.Sprintf("%s/uid=%d", stdio, user), func(t *testing.T) { test(t, stdio, user) })
	}
}

// bareServer is a server that no wrapper looks after, with children that escaped it, under a gateway of the user.
func bareServer(t *testing.T, stdio string, user int) *session {
	t.Helper()
	s := startGatewayAs(t, user).tree(setup{Bare: true, Stdio: stdio}, "serve,ignore-eof", "setsid/plain", "plain")
	s.WaitReady()
	outgrow(t)
	return s
}

// match makes a sweep look at the session's server.
func (s *session) match() string { return "--match=fixture node " + s.Dir + " - " }

// as is a caller with the user of the session.
func (s *session) as() caller { return caller{uid: s.gw.UID} }

func TestSeveredIsEnded(t *testing.T) {
	forBoth(t, func(t *testing.T, stdio string, user int) {
		s := bareServer(t, stdio, user)
		if r := s.as().reap(t, 0, s.match(), "--kill", "--unwrapped"); len(r.Findings) > 0 {
			t.Errorf("under a living gateway: %v", r.Findings)
		}
		s.gw.Kill()
		if r := s.as().reap(t, 0); len(r.Findings) > 0 {
			t.Errorf("unknown command: %v", r.Findings)
		}
		if r := (caller{uid: mallory}).reap(t, 0, s.match(), "--kill", "--unwrapped"); len(r.Findings) > 0 {
			t.Errorf("another user found %v", r.Findings)
		}
		for _, args := range [][]string{nil, {"--kill"}} {
			r := s.as().reap(t, 1, append(args, s.match())...)
			if f, ok := r.about(s.Server); !ok || r.classes() != "severed" || len(f.Members) != 4 || f.Result != "listed" {
				t.Errorf("with %q found %v, want the server, severed, 4 members", args, r.Findings)
			}
		}
		if n := len(s.Members()); n != 4 {
			t.Errorf("%d processes are left, want all 4", n)
		}
		r := s.as().reap(t, 0, s.match(), "--kill", "--unwrapped")
		if f, ok := r.about(s.Server); !ok || f.Result != "ended" {
			t.Errorf("found %v, want the server ended", r.Findings)
		}
		s.WaitDead()
	})
}

// sibling is a server whose gateway is dead and whose standard input another process holds.
type sibling struct {
	session        *session
	holder, server int
}

func startCareless(t *testing.T, stdio string, user int) sibling {
	t.Helper()
	s := startGatewayAs(t, user).newSession() // for its directory
	argv := []string{"careless", "stdio=" + stdio, "stderr=" + s.Stderr, "lifeline=" + s.Life.Path, "--"}
	cmd := exec.Command(fixture, append(argv, node(s.Dir, "serve,ignore-eof", "plain")...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	out, err := cmd.StdoutPipe()
	s.ok(err)
	s.ok(cmd.Start())
	b := sibling{session: s}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.ok(err)
	_, err = fmt.Sscan(line, &b.holder, &b.server)
	s.ok(err)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	t.Cleanup(func() { _ = syscall.Kill(b.holder, syscall.SIGKILL) })
	outgrow(t)
	return b
}

// Another process could still write to it: reported, and never ended. The holder may belong to a user whose descriptors no
// other user may look at. Without a holder it is ended.
func TestHeldBySiblingIsSuspect(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, stdio := range []string{"pipe", "socketpair"} {
		t.Run(stdio, func(t *testing.T) {
			b := startCareless(t, stdio, nobody)
			s := b.session
			suspect := func(held string) {
				t.Helper()
				r := s.as().reap(t, 1, s.match(), "--kill", "--unwrapped")
				if f, ok := r.about(b.server); !ok || f.Class != "suspect" || f.Result != "listed" || f.Advice == "" {
					t.Fatalf("held by %s: found %v, want the server, suspect", held, r.Findings)
				}
			}
			suspect("a sibling")
			heir := inheritEnd(t, b.holder)
			suspect("a process of root")
			if !s.Alive() {
				t.Error("it was ended")
			}
			_ = heir.Kill()
			_, _ = heir.Wait()
			if r := s.as().reap(t, 0, s.match(), "--kill", "--unwrapped"); r.classes() != "severed" {
				t.Errorf("with the holder gone found %v, want severed", r.Findings)
			}
			s.WaitDead()
		})
	}
}

// inheritEnd moves the end that a sibling holds (its fd 3) to a process of root, and ends the sibling.
func inheritEnd(t *testing.T, holder int) *os.Process {
	t.Helper()
	pidfd, err := unix.PidfdOpen(holder, 0)
	ok(t, err)
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, 3, 0)
	ok(t, err)
	end := os.NewFile(uintptr(fd), "end")
	defer end.Close()
	cmd := exec.Command(fixture, "rest")
	cmd.ExtraFiles = []*os.File{end}
	ok(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_ = syscall.Kill(holder, syscall.SIGKILL)
	stage.AwaitExit(t, holder)
	return cmd.Process
}
