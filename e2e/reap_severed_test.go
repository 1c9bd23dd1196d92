package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Servers that were never wrapped. The other end of its standard input proves that no gateway uses such a server.

// forBoth runs a test over pipes and over socketpairs, as root and as another user.
func forBoth(t *testing.T, test func(t *testing.T, stdio string, user int)) {
	t.Helper()
	if !onOwnHost(t) {
		return
	}
	for _, stdio := range []string{"pipe", "socketpair"} {
		for _, user := range []int{0, nobody} {
			t.Run(fmt.Sprintf("%s/uid=%d", stdio, user), func(t *testing.T) { test(t, stdio, user) })
		}
	}
}

// bareServer is a server that no wrapper looks after, with children that escaped it, under a gateway of the user.
func bareServer(t *testing.T, stdio string, user int) *session {
	t.Helper()
	s := startGatewayAs(t, user).tree(setup{bare: true, stdio: stdio}, "serve,ignore-eof", "setsid/plain", "plain")
	s.waitReady()
	outgrow(t)
	return s
}

// match makes a sweep look at the session's server.
func (s *session) match() string { return "--match=fixture node " + s.dir + " - " }

// as is a caller with the user of the session.
func (s *session) as() caller { return caller{uid: s.gw.uid} }

func TestSeveredIsEnded(t *testing.T) {
	forBoth(t, func(t *testing.T, stdio string, user int) {
		s := bareServer(t, stdio, user)
		if r := s.as().reap(t, 0, s.match(), "--kill", "--unwrapped"); len(r.Findings) > 0 {
			t.Errorf("under a living gateway: %v", r.Findings)
		}
		s.gw.kill()
		if r := s.as().reap(t, 0); len(r.Findings) > 0 {
			t.Errorf("unknown command: %v", r.Findings)
		}
		for _, args := range [][]string{nil, {"--kill"}} {
			r := s.as().reap(t, 1, append(args, s.match())...)
			if f, ok := r.about(s.server); !ok || r.classes() != "severed" || len(f.Members) != 4 || f.Result != "listed" {
				t.Errorf("with %q found %v, want the server, severed, 4 members", args, r.Findings)
			}
		}
		if n := len(s.members()); n != 4 {
			t.Errorf("%d processes are left, want all 4", n)
		}
		r := s.as().reap(t, 0, s.match(), "--kill", "--unwrapped")
		if f, ok := r.about(s.server); !ok || f.Result != "ended" {
			t.Errorf("found %v, want the server ended", r.Findings)
		}
		s.waitDead()
	})
}

// Another user sees nothing and does nothing.
func TestSeveredOfAnotherUser(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := bareServer(t, "pipe", 0)
	s.gw.kill()
	if r := (caller{uid: nobody}).reap(t, 0, s.match(), "--kill", "--unwrapped"); len(r.Findings) > 0 {
		t.Errorf("found %v", r.Findings)
	}
	if n := len(s.members()); n != 4 {
		t.Errorf("%d processes are left, want all 4", n)
	}
}

// sibling is a server whose gateway is dead and whose standard input another process holds.
type sibling struct {
	session        *session
	holder, server int
}

func startCareless(t *testing.T, stdio string, user int, keys ...string) sibling {
	t.Helper()
	s := startGatewayAs(t, user).newSession() // for its directory
	argv := append([]string{"careless", "stdio=" + stdio, "stderr=" + s.stderr, "lifeline=" + s.life.path}, keys...)
	cmd := exec.Command(fixture, append(append(argv, "--"), node(s.dir, "serve,ignore-eof", "plain")...)...)
	cmd.Stderr = os.Stderr
	if user != 0 && len(keys) == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	}
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

// Another process could still write to it: reported, and never ended.
func TestHeldBySiblingIsSuspect(t *testing.T) {
	forBoth(t, func(t *testing.T, stdio string, user int) {
		b := startCareless(t, stdio, user)
		s := b.session
		for range 2 {
			r := caller{uid: user}.reap(t, 1, s.match(), "--kill", "--unwrapped")
			f, ok := r.about(b.server)
			if !ok || f.Class != "suspect" || f.Result != "listed" || f.Advice == "" {
				t.Fatalf("found %v, want the server, suspect", r.Findings)
			}
		}
		if !s.alive() {
			t.Error("it was ended")
		}
		_ = syscall.Kill(b.holder, syscall.SIGKILL)
		awaitExit(t, b.holder)
		if r := (caller{uid: user}).reap(t, 0, s.match(), "--kill", "--unwrapped"); r.classes() != "severed" {
			t.Errorf("with the holder gone found %v, want severed", r.Findings)
		}
		s.waitDead()
	})
}

// The holder belongs to a user whose file descriptors no other user may look at. It is a holder all the same.
func TestHeldByAnotherUserIsSuspect(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, stdio := range []string{"pipe", "socketpair"} {
		t.Run(stdio, func(t *testing.T) {
			b := startCareless(t, stdio, nobody)
			// The end moves on to a process of root.
			heir := inheritEnd(t, b.holder)
			r := caller{uid: nobody}.reap(t, 1, b.session.match(), "--kill", "--unwrapped")
			if f, ok := r.about(b.server); !ok || f.Class != "suspect" {
				t.Errorf("found %v, want suspect", r.Findings)
			}
			_ = syscall.Kill(heir, syscall.SIGKILL)
		})
	}
}

// inheritEnd moves the end that a sibling holds (its fd 3) to a process of root, and ends the sibling.
func inheritEnd(t *testing.T, holder int) int {
	t.Helper()
	pidfd, err := unix.PidfdOpen(holder, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := os.NewFile(uintptr(fd), "end")
	defer end.Close()
	cmd := exec.Command(fixture, "rest")
	cmd.ExtraFiles = []*os.File{end}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_ = syscall.Kill(holder, syscall.SIGKILL)
	awaitExit(t, holder)
	return cmd.Process.Pid
}
