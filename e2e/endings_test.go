package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// finale is a way in which a session ends. The endings of shapes meet every tree. Here every other way that gateways
// were seen to end a server meets one tree.
type finale struct {
	name   string
	end    func(*session)
	causes []string
	exit   []string // how the wrapper ends; none when the gateway is not there to see it
	root   string   // "serve" unless told otherwise
	flags  []string
	keys   []string
	only   string // the kind of stdio that has this ending
	// leave ends the bare server in the control; nil when end does.
	leave func(*session)
	bare  bool // has a control: the bare tree outlives it
}

// deathCauses are those of a dying gateway. The kernel closes its pipes, then ends its last threads, and tells of its
// death after that. In between, the supervisor may see the ends of the streams, and all of the tree may end by them.
var deathCauses = []string{"gateway-gone", "stdin-closed", "stdout-closed", "server-exited"}

// groupDeathCauses are those of a signal to the gateway's process group. The anchor is in it.
var groupDeathCauses = map[syscall.Signal][]string{
	syscall.SIGKILL: append([]string{"anchor-gone"}, deathCauses...),
	syscall.SIGTERM: append([]string{"signal"}, deathCauses...),
	syscall.SIGINT:  append([]string{"signal"}, deathCauses...),
	syscall.SIGHUP:  append([]string{"signal"}, deathCauses...),
}

var finales = []finale{
	{name: "gateway SIGKILL", end: func(s *session) { s.gw.kill() }, causes: deathCauses, bare: true},
	{name: "gateway SIGTERM", end: func(s *session) { _ = syscall.Kill(s.gw.pid, syscall.SIGTERM) }, causes: deathCauses, bare: true},
	{name: "gateway exits", end: func(s *session) { s.gw.exit() }, causes: deathCauses, bare: true},
	{name: "gateway's group SIGKILL", end: killGroup(syscall.SIGKILL), causes: groupDeathCauses[syscall.SIGKILL], bare: true},
	{name: "gateway's group SIGTERM", end: killGroup(syscall.SIGTERM), causes: groupDeathCauses[syscall.SIGTERM], bare: true},
	{name: "gateway's group SIGINT", end: killGroup(syscall.SIGINT), causes: groupDeathCauses[syscall.SIGINT], bare: true},
	{name: "gateway's group SIGHUP", end: killGroup(syscall.SIGHUP), causes: groupDeathCauses[syscall.SIGHUP], bare: true},
	{
		name: "stdin closed", end: (*session).closeStdin, bare: true,
		causes: []string{"stdin-closed", "server-exited"}, exit: []string{"exit 0"},
	},
	{
		name: "stdin closed, EOF ignored", end: (*session).closeStdin, root: "serve,ignore-eof", flags: deaf(),
		causes: []string{"stdin-closed"}, exit: []string{"exit 143"},
	},
	{
		name: "stdin shut down", end: (*session).shutdownStdin, only: "socketpair", bare: true,
		causes: []string{"stdin-closed", "server-exited"}, exit: []string{"exit 0"},
	},
	{
		name: "stdin shut down, EOF ignored", end: (*session).shutdownStdin, only: "socketpair", root: "serve,ignore-eof", flags: deaf(),
		causes: []string{"stdin-closed"}, exit: []string{"exit 143"},
	},
	{
		name: "stdout closed", end: (*session).closeStdout, bare: true, leave: func(s *session) { s.write("{}\n") },
		causes: []string{"stdout-closed"}, exit: []string{"exit 143"},
	},
	{name: "wrapper SIGTERM", end: signals(syscall.SIGTERM), causes: []string{"signal"}, exit: []string{"exit 143"}, bare: true},
	{name: "wrapper SIGINT", end: signals(syscall.SIGINT), causes: []string{"signal"}, exit: []string{"exit 143"}, bare: true},
	{name: "wrapper SIGHUP", end: signals(syscall.SIGHUP), causes: []string{"signal"}, exit: []string{"exit 143"}, bare: true},
	{name: "wrapper SIGQUIT", end: signals(syscall.SIGQUIT), causes: []string{"signal"}, exit: []string{"exit 143"}, bare: true},
	{
		name: "wrapper SIGTERM many times", end: signals(syscall.SIGTERM, syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM),
		causes: []string{"signal"}, exit: []string{"exit 137"}, root: "serve,ignore-term", flags: resisting(),
	},
	{name: "wrapper SIGKILL", end: signals(syscall.SIGKILL), causes: []string{"anchor-gone"}, exit: []string{"signal 9"}, bare: true},
	{
		name: "wrapper's group SIGKILL", end: func(s *session) { s.gw.call("killpg", s.name, "9") }, keys: []string{"setsid=1"},
		causes: []string{"anchor-gone"}, exit: []string{"signal 9"}, bare: true,
	},
	{
		// Codex, polite: TERM, and KILL 8 to 20 ms after it. On a busy machine the anchor may be dead before it has
		// passed TERM on.
		name: "SIGTERM, soon SIGKILL", end: termThenKill, root: "serve,ignore-term", flags: resisting("--term-grace=5s"),
		causes: []string{"signal", "anchor-gone"}, exit: []string{"signal 9"}, bare: true,
	},
	{
		// Claude Code. The same holds for its half a second.
		name: "SIGINT, SIGTERM, SIGKILL", end: intTermKill, root: "serve,ignore-term", flags: resisting("--term-grace=5s"),
		causes: []string{"signal", "anchor-gone"}, exit: []string{"signal 9"}, bare: true,
	},
	{
		name: "supervisor SIGKILL", end: func(s *session) { _ = syscall.Kill(s.supervisor(), syscall.SIGKILL) },
		causes: []string{"supervisor-gone"}, exit: []string{"exit 137"},
	},
	{
		name: "supervisor SIGTERM", end: func(s *session) { _ = syscall.Kill(s.supervisor(), syscall.SIGTERM) },
		causes: []string{"signal"}, exit: []string{"exit 143"},
	},
	{
		name: "server exits", end: func(s *session) { s.write(`{"method":"exit","code":7}` + "\n") },
		causes: []string{"server-exited"}, exit: []string{"exit 7"}, bare: true,
	},
	{
		name: "server SIGKILL", end: func(s *session) { _ = syscall.Kill(s.server, syscall.SIGKILL) },
		causes: []string{"server-exited"}, exit: []string{"exit 137"}, bare: true,
	},
}

// escapees are the children of every tree here.
var escapees = []string{"daemon", "setsid,closefds,clearenv,chdir", "plain/pgrp"}

func killGroup(sig syscall.Signal) func(*session) {
	return func(s *session) { s.gw.killGroup(sig) }
}

// signals sends one after the other to what the gateway spawned.
func signals(all ...syscall.Signal) func(*session) {
	return func(s *session) {
		for _, sig := range all {
			s.signal(sig)
		}
	}
}

// termThenKill leaves as much time between the two as Codex was seen to leave. The grace is far longer.
func termThenKill(s *session) {
	seed := newSeed(s.t)
	s.signal(syscall.SIGTERM)
	pause(seed.between(8*time.Millisecond, 20*time.Millisecond))
	s.signal(syscall.SIGKILL)
}

// intTermKill leaves the times that Claude Code was seen to leave. The grace is longer than both together.
func intTermKill(s *session) {
	s.signal(syscall.SIGINT)
	pause(100 * time.Millisecond)
	s.signal(syscall.SIGTERM)
	pause(400 * time.Millisecond)
	s.signal(syscall.SIGKILL)
}

// pause lets time pass where the moment itself is tested: a random one, or one that a client was seen to choose. It
// also does so where a clock is waited for, or between two looks. Nothing is expected to have happened meanwhile.
func pause(d time.Duration) { <-time.After(d) }

// quiet lets time pass in which something must not happen, where no event would tell of it. The test looks afterwards
// whether all is as it was. On a busy machine it may look too early, which makes the test miss something, but never
// fail.
func quiet(d time.Duration) { <-time.After(d) }

// seed is the source of a test's random choices.
type seed struct{ *rand.Rand }

func newSeed(t *testing.T) seed {
	t.Helper()
	return seed{rand.New(rand.NewPCG(testkit.Seed(t), 0))}
}

func (s seed) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.Int64N(int64(most-least)))
}

func TestEndings(t *testing.T) {
	t.Parallel()
	for i, f := range finales {
		for j, stdio := range []string{"pipe", "socketpair"} {
			for k, cgroup := range []string{"auto", "off"} {
				if f.only != "" && f.only != stdio {
					continue
				}
				t.Run(f.name+"/"+stdio+"/cgroup="+cgroup, func(t *testing.T) {
					sample(t, 2, i, j, k)
					t.Parallel()
					f.test(t, stdio, cgroup)
				})
			}
		}
	}
}

func (f finale) test(t *testing.T, stdio, cgroup string) {
	s := begin(t, f.setup(stdio, cgroup), f.tree(), escapees...)
	f.end(s)
	if len(f.exit) > 0 {
		wantExit(t, s.wait(), f.exit...)
	}
	s.gone()
	s.endedWhole(f.causes...)
}

func (f finale) tree() string {
	if f.root == "" {
		return "serve"
	}
	return f.root
}

func (f finale) setup(stdio, cgroup string) setup {
	return setup{stdio: stdio, keys: f.keys, flags: polite(append([]string{"--cgroup=" + cgroup}, f.flags...)...)}
}

// The same endings without the wrapper: the server ends, one way or another, and what it started does not.
func TestBareEndingsLeak(t *testing.T) {
	t.Parallel()
	for i, f := range finales {
		if !f.bare {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			sample(t, 3, i)
			t.Parallel()
			with := setup{bare: true, keys: f.keys}
			if f.only != "" {
				with.stdio = f.only
			}
			s := begin(t, with, f.tree(), escapees...)
			f.end(s)
			if f.leave != nil {
				f.leave(s)
			}
			awaitExit(t, s.server)
			if len(s.members()) == 0 || !held(s.flock) {
				t.Error("nothing is left of the bare tree")
			}
			s.endAll()
		})
	}
}

// The thread that spawned the wrapper ends, and the gateway lives on: nothing may happen.
func TestSpawningThreadEnds(t *testing.T) {
	t.Parallel()
	for _, stdio := range []string{"pipe", "socketpair"} {
		t.Run(stdio, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{stdio: stdio, flags: polite(), keys: []string{"thread=own"}}, "serve", "daemon")
			s.gw.call("endthread", s.name)
			for range 200 { // longer than a wrapper needs to die of it
				if answer := s.ask(`{"id":11,"method":"ping"}`); !strings.Contains(answer, `"id":11`) {
					t.Fatalf("answer %q", answer)
				}
			}
			if !s.whole(4) {
				t.Errorf("left of the session: %v", s.members())
			}
			if events := s.events("session ended"); len(events) > 0 {
				t.Errorf("the session has ended: %s", events)
			}
			s.gw.kill()
			s.gone()
			s.endedWhole(deathCauses...)
		})
	}
}

// The control: a signal tied to the death of the parent, as the kernel offers it, does end the server.
func TestSpawningThreadEndsWithDeathSignal(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.spawn(setup{bare: true, keys: []string{"thread=own", "pdeathsig=9"}}, node(s.dir, "serve")...)
	s.waitReady()
	s.gw.call("endthread", s.name)
	if end := s.wait(); end != "signal 9" {
		t.Errorf("the server ended with %q", end)
	}
	s.waitDead()
}

// deaths are the endings of a session in which the streams are stuck.
var deaths = []struct {
	name string
	end  func(*session)
	exit []string
}{
	{"gateway SIGKILL", func(s *session) { s.gw.kill() }, nil},
	{"gateway exits", func(s *session) { s.gw.exit() }, nil},
	{"stdin closed", (*session).closeStdin, []string{"exit 143"}},
	{"wrapper SIGTERM", signals(syscall.SIGTERM), []string{"exit 143"}},
	{"wrapper SIGKILL", signals(syscall.SIGKILL), []string{"signal 9"}},
	{"supervisor SIGKILL", func(s *session) { _ = syscall.Kill(s.supervisor(), syscall.SIGKILL) }, []string{"exit 137"}},
}

func forDeaths(t *testing.T, test func(t *testing.T, stdio string, end func(*session), exit []string)) {
	for i, d := range deaths {
		for j, stdio := range []string{"pipe", "socketpair"} {
			t.Run(d.name+"/"+stdio, func(t *testing.T) {
				sample(t, 4, i, 2*j)
				t.Parallel()
				test(t, stdio, d.end, d.exit)
			})
		}
	}
}

// A tool call that never returns, and keeps the server from seeing anything else.
func TestBlockedCall(t *testing.T) {
	t.Parallel()
	forDeaths(t, func(t *testing.T, stdio string, end func(*session), exit []string) {
		s := begin(t, setup{stdio: stdio, flags: deaf()}, "serve,ignore-eof", escapees...)
		s.write(`{"id":1,"method":"block"}` + "\n")
		end(s)
		s.concluded(exit)
	})
}

// The gateway has stopped reading: the server is stuck in a write, and cannot see the end of its input.
func TestFullStdout(t *testing.T) {
	t.Parallel()
	forDeaths(t, func(t *testing.T, stdio string, end func(*session), exit []string) {
		s := begin(t, setup{stdio: stdio, flags: deaf()}, "serve", escapees...)
		s.write(`{"method":"flood-out"}` + "\n")
		s.waitStuck(1)
		end(s)
		s.concluded(exit)
	})
}

// The same with stderr, to which the wrapper writes as well: all it has to say, at the most talkative level.
func TestFullStderr(t *testing.T) {
	t.Parallel()
	forDeaths(t, func(t *testing.T, stdio string, end func(*session), exit []string) {
		flags := deaf("--log-file=", "--log-level=trace")
		s := begin(t, setup{stdio: stdio, stderr: "pipe", flags: flags}, "serve", escapees...)
		s.write(`{"method":"flood-err"}` + "\n")
		s.waitStuck(2)
		end(s)
		s.concluded(exit)
	})
}

// There is more to say than a log keeps in store, and nobody reads it.
func TestFullStderrAndMuchToSay(t *testing.T) {
	t.Parallel()
	for i, d := range deaths {
		t.Run(d.name, func(t *testing.T) {
			sample(t, len(deaths), i)
			t.Parallel()
			flags := deaf("--log-file=", "--log-level=trace")
			s := begin(t, setup{stderr: "pipe", flags: flags}, "serve", "plain*400")
			s.write(`{"method":"flood-err"}` + "\n")
			s.waitStuck(2)
			d.end(s)
			s.concluded(d.exit)
		})
	}
}

// No process has stderr's other end any more: what the wrapper writes there is answered with SIGPIPE.
func TestBrokenStderr(t *testing.T) {
	t.Parallel()
	forDeaths(t, func(t *testing.T, stdio string, end func(*session), exit []string) {
		flags := deaf("--log-file=", "--log-level=trace")
		s := begin(t, setup{stdio: stdio, stderr: "pipe", flags: flags}, "serve,ignore-eof", escapees...)
		s.closeStderr()
		s.signal(syscall.SIGWINCH) // something to handle that ends nothing
		if answer := s.ask(`{"id":5,"method":"ping"}`); !strings.Contains(answer, `"id":5`) {
			t.Errorf("answer %q", answer)
		}
		end(s)
		s.concluded(exit)
	})
}

// concluded expects that the wrapper ends in one of these ways, and that nothing is left.
func (s *session) concluded(exit []string) {
	s.t.Helper()
	if exit != nil {
		wantExit(s.t, s.wait(), exit...)
	}
	s.gone()
}

// waitStuck waits until a thread of the server sleeps in a write to one of its streams. Nobody reads, so it stays there.
func (s *session) waitStuck(fd int) {
	s.t.Helper()
	want := strconv.Itoa(unix.SYS_WRITE) + " 0x" + strconv.Itoa(fd) + " "
	testkit.Until(s.t, fmt.Sprintf("a server that is stuck at fd %d", fd), func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", s.server))
		return slices.ContainsFunc(threads, func(path string) bool {
			// It reads "running" until the thread sleeps.
			now, _ := os.ReadFile(path)
			return strings.HasPrefix(string(now), want)
		})
	})
}
