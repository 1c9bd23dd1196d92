package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
)

// Every ending of a session, whatever its server does just then: awake, falling asleep, asleep, being woken.

// A phase is what the server does when the session ends.
type phase struct {
	name  string
	root  string
	flags []string
	reach func(s *session)
	// members hold the lifeline then: waiter and front, anchor and supervisor, the server, its two children with fds.
	members int
}

func phases() []phase {
	return []phase{
		{name: "awake", root: "serve", reach: func(s *session) { s.hold(1) }, members: 7},
		{
			name: "falling asleep", root: "serve,ignore-eof", flags: deaf("--eof-grace=30s"), members: 7,
			reach: func(s *session) { s.awaitState(s.t, "falling-asleep") },
		},
		{name: "asleep", root: "serve", reach: func(s *session) { s.asleep(1) }, members: 1},
		{name: "waking", root: "serve", reach: (*session).wakeMute, members: 7},
	}
}

// wakeMute leaves the session waiting for a server that does not answer the handshake.
func (s *session) wakeMute() {
	s.t.Helper()
	s.asleep(1)
	s.mode("mute")
	s.Write(toolCall(7, "echo", "") + "\n")
	s.until("waking", func() bool { got := s.got(); return s.starts() == 2 && got[len(got)-1] == initialize(version) })
}

// A phaseEnd is an ending; want gives how the wrapper ends, "" when the gateway is not there to see it.
type phaseEnd struct {
	name   string
	end    func(s *session)
	want   func(p phase) string
	causes []string
}

func endsWith(code string) func(phase) string { return func(phase) string { return code } }

// killBehind kills a process of the session behind the front. An awake session ends with that. Another one goes on without a
// server, and ends with its client.
func killBehind(which func(r record) int) func(s *session) {
	return func(s *session) {
		s.t.Helper()
		awake := s.sleeper().State == "running" && len(s.Events("server woken"))+1 == s.starts()
		s.ok(syscall.Kill(which(s.Behind()), syscall.SIGKILL))
		if !awake {
			s.until("asleep", func() bool { return s.sleeper().State == "asleep" })
			s.closeStdin()
		}
	}
}

// halved is the code of a session whose front has lost half of what is behind it.
func (p phase) halved() string {
	if p.name == "awake" {
		return "exit 137"
	}
	return "exit 0"
}

func phaseEnds() []phaseEnd {
	return []phaseEnd{
		{"gateway SIGKILL", func(s *session) { s.gw.Kill() }, endsWith(""), deathCauses},
		{"gateway's group SIGKILL", killGroup(syscall.SIGKILL), endsWith(""),
			append([]string{"signal"}, groupDeathCauses[syscall.SIGKILL]...)}, // The front may outlive the gateway for a moment, and ask for the end.
		{"stdin closed", (*session).closeStdin, endsWith("exit 0"), []string{"stdin-closed"}},
		{"stdout closed", (*session).closeStdout, func(p phase) string {
			if p.members == 1 {
				return "exit 0"
			}
			return "exit 143"
		}, []string{"stdout-closed"}},
		{"SIGTERM", signals(syscall.SIGTERM), endsWith("exit 143"), []string{"signal"}},
		{"stop", (*session).stop, endsWith("exit 143"), []string{"signal"}},
		// A server that is just starting may end at the end of its input before its supervisor has looked.
		{"front SIGKILL", signals(syscall.SIGKILL), endsWith("signal 9"), []string{"stdin-closed", "stdout-closed", "gateway-gone", "server-exited"}},
		{"anchor SIGKILL", killBehind(func(r record) int { return r.Anchor.PID }), phase.halved, []string{"server-exited", "stdin-closed"}},
		{"supervisor SIGKILL", killBehind(func(r record) int { return r.Supervisor.PID }), phase.halved, []string{"server-exited", "stdin-closed"}},
	}
}

// stop ends the session as an operator does.
func (s *session) stop() {
	s.t.Helper()
	if o := (caller{runtime: s.Runtime}).run(s.t, "stop", s.ID()); o.code != 0 {
		s.t.Errorf("stop: exit code %d: %s%s", o.code, o.stdout, o.stderr)
	}
}

func TestHibernateEndings(t *testing.T) {
	t.Parallel()
	for i, p := range phases() {
		for j, e := range phaseEnds() {
			if p.members == 1 && (strings.HasPrefix(e.name, "anchor") || strings.HasPrefix(e.name, "supervisor")) {
				continue // There is nothing behind the front.
			}
			how := [][2]string{{"pipe", "auto"}, {"socketpair", "off"}}[(i+j/2)%2]
			t.Run(p.name+"/"+e.name+"/"+how[0]+"/cgroup="+how[1], func(t *testing.T) {
				sample(t, 6)
				t.Parallel()
				p.test(t, e, how[0], how[1])
			})
		}
	}
}

func (p phase) test(t *testing.T, e phaseEnd, stdio, cgroup string) {
	flags := append(sleepy("--cgroup="+cgroup), p.flags...)
	s := greeted(t, setup{Stdio: stdio, Flags: flags}, p.root, "daemon", "setsid", "setsid,closefds,clearenv,chdir")
	p.reach(s)
	s.WaitRecord()
	n := len(s.Members())
	for looks := 0; n != p.members && looks < 2000; looks++ { // A supervisor that is to start its runtime forks a few times, and a front leaves after a moment.
		pause(time.Millisecond)
		n = len(s.Members())
	}
	if n != p.members || stage.Held(s.Flock) != (p.members > 1) {
		t.Fatalf("%d members hold the lifeline, want %d; the lock is held: %v", n, p.members, stage.Held(s.Flock))
	}
	e.end(s)
	if want := e.want(p); want != "" {
		wantExit(t, s.Wait(), want)
	}
	if s.WaitDead(); e.killsFront() && p.name != "awake" && len(s.Records()) > 0 {
		s.forgotten() // Nothing was behind it, or was only about to begin.
		return
	}
	s.Gone()
	s.EndedWhole(e.causes...)
}

// killsFront reports whether nothing of a session without a server is left that could clean up.
func (e phaseEnd) killsFront() bool {
	return e.name == "front SIGKILL" || e.name == "gateway's group SIGKILL"
}

// forgotten expects what a front leaves that is killed while nothing is behind it: its record, which the next session or
// reap removes.
func (s *session) forgotten() {
	s.t.Helper()
	s.WaitDead()
	id := s.Records()[0]
	files, err := filepath.Glob(filepath.Join(s.recordDir(), id+".*"))
	s.ok(err)
	for _, f := range files {
		s.ok(os.Remove(f))
	}
	s.Gone()
}
