package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// passed are the signals that end no session.
var passed = []syscall.Signal{
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM, syscall.SIGVTALRM,
	syscall.SIGIO, syscall.SIGPWR, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGXCPU,
	syscall.SIGABRT, syscall.SIGSTKFLT, // a runtime dies of these
	35, 40, 64, // real time
}

// The server gets each signal that the wrapper gets and that does not mean an end.
func TestSignalsArePassed(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--cgroup=auto", "--cgroup=off", "--hibernate=10m"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			s := startGateway(t).newSession()
			s.Spawn(setup{Flags: quick(flag, "--stdout-guard=false")}, fixture, "signals")
			s.WaitReady()
			for range 3 {
				for _, sig := range passed {
					if sig == 64 && flag == "--hibernate=10m" { // mcp-tether restart
						continue
					}
					s.Signal(sig)
					if got := strings.TrimSpace(s.Read()); got != "got "+strconv.Itoa(int(sig)) {
						t.Fatalf("the server %s instead of %s", got, strconv.Itoa(int(sig)))
					}
				}
			}
			s.closeStdin()
			wantExit(t, s.Wait(), "exit 137") // it survives SIGTERM
			s.Gone()
			s.EndedWhole("stdin-closed")
		})
	}
}

// A gateway may have blocked signals around its start of a server, which then unblocks them.
func TestBlockedSignalsArePassed(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"bare": nil, "two processes": {"--cgroup=auto"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startGateway(t).newSession()
			argv := []string{fixture, "signals"}
			if flags != nil {
				argv = s.Wrap(quick(flags...), argv...)
			}
			s.Spawn(setup{Bare: true}, append([]string{fixture, "under", "block=" + allSignals(), "--"}, argv...)...)
			s.WaitReady()
			for _, sig := range passed {
				s.Signal(sig)
				if got := strings.TrimSpace(s.Read()); got != "got "+strconv.Itoa(int(sig)) {
					t.Fatalf("the server %s instead of %s", got, strconv.Itoa(int(sig)))
				}
			}
			if flags == nil {
				s.Signal(syscall.SIGKILL)
				s.WaitDead()
				return
			}
			s.closeStdin()
			wantExit(t, s.Wait(), "exit 137")
			s.Gone()
		})
	}
}

// The server takes a signal as if it had been its own, and the exit code says so.
func TestPassedSignalEndsServer(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.Spawn(setup{Flags: polite()}, "/bin/cat")
	s.Ask("up") // cat has no handlers
	s.Signal(syscall.SIGUSR1)
	wantExit(t, s.Wait(), "exit "+strconv.Itoa(128+int(syscall.SIGUSR1)))
	s.Gone()
	s.EndedWhole("server-exited")
}

// A signal that the wrapper inherited as ignored stays so: what `nohup` and a shell's background jobs rely on.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := startGateway(t).newSession()
			argv := s.Wrap(polite(), node(s.Dir, "serve", "daemon")...)
			argv = append([]string{fixture, "under", "ignore=" + strconv.Itoa(int(sig)), "--"}, argv...)
			s.Spawn(setup{Bare: true}, argv...)
			s.WaitReady()
			for range 3 {
				s.Signal(sig)
				if answer := s.Ask(`{"id":9,"method":"ping"}`); !strings.Contains(answer, `"id":9`) {
					t.Errorf("answer %q", answer)
				}
			}
			s.Signal(syscall.SIGTERM)
			wantExit(t, s.Wait(), "exit 143")
			s.Gone()
			if c := s.EndedWhole("signal"); c.Signal != "SIGTERM" {
				t.Errorf("signal = %q", c.Signal)
			}
		})
	}
}

// A flood of signals that queue, from several senders, is passed on in part, and holds up no end.
func TestFloodOfSignals(t *testing.T) {
	for to, flag := range map[string]string{"supervisor": "--cgroup=auto", "anchor": "--cgroup=off"} {
		t.Run(to, func(t *testing.T) {
			sample(t, 3)
			s := startGateway(t).newSession()
			s.Spawn(setup{Flags: quick(flag)}, fixture, "signals")
			s.WaitReady()
			target := s.PID
			if to == "supervisor" {
				target = s.Supervisor()
			}
			const senders, realTime = 8, 35
			for range senders {
				cmd := exec.Command(fixture, "barrage", strconv.Itoa(realTime), strconv.Itoa(target))
				s.ok(cmd.Start())
				t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			}
			for range 10 {
				if got := strings.TrimSpace(s.Read()); got != "got "+strconv.Itoa(realTime) {
					t.Fatalf("the server %s", got)
				}
			}
			s.closeStdin()
			wantExit(t, s.Wait(), "exit 137")
			s.Gone()
			s.EndedWhole("stdin-closed")
		})
	}
}
