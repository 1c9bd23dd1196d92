package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// A supervisor that lives and does nothing: the anchor is its watchdog. And an anchor that does nothing.

// own puts what the gateway starts into a terminal session of its own. In the gateway's, the kernel itself would
// continue a stopped process group whose gateway ends.
var own = []string{"setsid=1"}

// state is the one letter of a process's state, "" when there is no such process.
func state(pid int) string { return describe(pid).state }

// awaitState waits until the process is in one of the states, or (with !) in none of them.
func awaitState(t *testing.T, pid int, want string) {
	t.Helper()
	not := strings.HasPrefix(want, "!")
	for deadline := time.Now().Add(testkit.Patience); ; pause(time.Millisecond) {
		if in := strings.Contains(want, state(pid)); in != not {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is in state %q, want %q", pid, state(pid), want)
		}
	}
}

// A stopped supervisor is continued at once: nobody presses a key for it.
func TestStoppedSupervisorIsContinued(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{flags: deaf()}, "serve,ignore-eof", escapees...)
	supervisor := s.supervisor()
	for range 3 {
		s.ok(syscall.Kill(supervisor, syscall.SIGSTOP))
		awaitState(t, supervisor, "!T")
	}
	if !strings.Contains(s.ask(`{"id":3,"method":"ping"}`), `"id":3`) {
		t.Error("the server does not answer")
	}
	s.ok(syscall.Kill(supervisor, syscall.SIGSTOP))
	s.closeStdin()
	wantExit(t, s.wait(), "exit 143")
	s.gone()
	s.endedWhole("stdin-closed")
}

// The control: without an anchor a stopped supervisor stays stopped, and keeps everything alive.
func TestStoppedSupervisorAloneStaysStopped(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{flags: deaf("--no-anchor"), keys: own}, "serve,ignore-eof", "daemon")
	s.ok(syscall.Kill(s.pid, syscall.SIGSTOP))
	awaitState(t, s.pid, "T")
	s.gw.kill()
	quiet(time.Second)
	if state(s.pid) != "T" || !s.alive() {
		t.Errorf("state %q, alive %v", state(s.pid), s.alive())
	}
	s.ok(syscall.Kill(s.pid, syscall.SIGCONT))
	s.gone()
}

// trace stops a process by ptrace until the test, or the function that it returns, lets go.
func trace(t *testing.T, pid, uid int) (release func()) {
	t.Helper()
	cmd := exec.Command(fixture, "trace", fmt.Sprint(pid))
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	release = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(release)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the tracer says %q, %v", line, err)
	}
	return release
}

// stuckEnds are reasons to end that a stuck supervisor does not act on.
var stuckEnds = []ending{
	{name: "gateway killed", end: func(s *session) { s.gw.kill() }},
	{name: "wrapper SIGTERM", end: func(s *session) { s.signal(syscall.SIGTERM) }},
}

// patienceWithStuck is the longest that a stuck supervisor may keep its session: the graces of these tests, and the margin.
const (
	stuckGraces = 3300 * time.Millisecond
	stuckMargin = 5 * time.Second
)

func TestTracedSupervisorHoldsNothingBack(t *testing.T) {
	t.Parallel()
	for _, uid := range []int{0, nobody} {
		for _, cgroup := range []string{"auto", "off"} {
			for _, e := range stuckEnds {
				t.Run(fmt.Sprintf("uid=%d/%s/cgroup=%s", uid, e.name, cgroup), func(t *testing.T) {
					t.Parallel()
					g := startGatewayAs(t, uid)
					// The watchdog waits for that as well. It is more than a busy machine needs, as nothing may survive.
					flags := quick("--kill-timeout=3s", "--containers=off", "--cgroup="+cgroup)
					s := g.tree(setup{flags: flags}, "serve,ignore-term", escapees...)
					s.waitReady()
					supervisor := s.supervisor()
					release := trace(t, supervisor, uid)
					began := time.Now()
					e.end(s)
					s.waitDead()
					took := time.Since(began)
					// What the tracer does not let go of is a zombie. The anchor does not wait for that.
					awaitExit(t, s.pid)
					s.gone()
					if c := s.endedWhole("supervisor-gone"); len(c.Survivors) > 0 {
						t.Errorf("%+v", c)
					}
					// A busy machine adds to it. Without the watchdog it takes as long as the tracer likes.
					if limit := stuckGraces + stuckMargin + 20*time.Second; took > limit {
						t.Errorf("it took %v, want at most %v", took, limit)
					}
					if st := state(supervisor); st != "" && st != "Z" {
						t.Errorf("the supervisor is in state %q", st)
					}
					release()
				})
			}
		}
	}
}

// The control: without an anchor a traced supervisor keeps everything alive for as long as it is traced.
func TestTracedSupervisorAloneHoldsEverything(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s := begin(t, setup{flags: quick("--kill-timeout=3s", "--containers=off", "--no-anchor")}, "serve,ignore-eof", "daemon")
	release := trace(t, s.pid, 0)
	s.gw.kill()
	if err := s.life.wait(stuckGraces + stuckMargin + 3*time.Second); err == nil {
		t.Error("the session ended, whoever ended it")
	}
	release()
	s.gone()
}

// A supervisor that is killed while it is traced cannot be waited for. The anchor takes over, and does not spin until then.
func TestTracedSupervisorKilled(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{flags: resisting()}, "serve,ignore-term", escapees...)
	supervisor := s.supervisor()
	trace(t, supervisor, 0)
	before := cpuTime(t, s.pid)
	s.ok(syscall.Kill(supervisor, syscall.SIGKILL))
	s.waitDead()
	used := cpuTime(t, s.pid) - before
	wantExit(t, s.wait(), "exit 137")
	s.gone()
	s.endedWhole("supervisor-gone")
	// It waits for about a second. The recovery needs little, and more under load.
	if used > 600*time.Millisecond {
		t.Errorf("the anchor used %v of processor time", used)
	}
}

// A supervisor that is late because its graces are long is not taken for a stuck one.
func TestWatchdogWaitsForTheGraces(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s := begin(t, setup{flags: []string{"--term-grace=8s"}}, "serve,ignore-term", "daemon,ignore-term")
	began := time.Now()
	s.signal(syscall.SIGTERM)
	wantExit(t, s.wait(), "exit 137")
	if took := time.Since(began); took < 8*time.Second {
		t.Errorf("ended after %v", took)
	}
	s.gone()
	s.endedWhole("signal")
}

// A stopped anchor holds nothing back, and does not stay behind stopped.
func TestStoppedAnchor(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name string
		end  func(s *session)
		exit string
	}{
		{"gateway killed", func(s *session) { s.gw.kill() }, ""},
		{"stdin closed", (*session).closeStdin, "exit 143"},
		{"server exits", func(s *session) { s.write(`{"method":"exit","code":7}` + "\n") }, "exit 7"},
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{flags: deaf(), keys: own}, "serve,ignore-eof", escapees...)
			s.waitRecord()
			s.ok(syscall.Kill(s.pid, syscall.SIGSTOP))
			awaitState(t, s.pid, "T")
			e.end(s)
			s.gone()
			if e.exit != "" {
				wantExit(t, s.wait(), e.exit)
			}
			awaitExit(t, s.pid)
			s.ended()
		})
	}
}

// The control of the one above: an anchor that is stopped has not ended while its supervisor lives.
func TestStoppedAnchorIsStopped(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{flags: polite()}, "serve")
	supervisor := s.supervisor()
	s.ok(syscall.Kill(s.pid, syscall.SIGSTOP))
	awaitState(t, s.pid, "T")
	s.signal(syscall.SIGTERM)
	quiet(300 * time.Millisecond)
	// A busy machine may find the supervisor running.
	if anchor, other := state(s.pid), state(supervisor); anchor != "T" || slices.Contains([]string{"T", "Z", ""}, other) {
		t.Errorf("anchor %q, supervisor %q", anchor, other)
	}
	s.closeStdin()
	s.gone()
}

// stop ends a session whose supervisor is stopped.
func TestStopContinues(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--no-anchor"}, nil} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{flags: deaf(flags...)}, "serve,ignore-eof", "daemon")
			supervisor := s.supervisor()
			s.ok(syscall.Kill(s.pid, syscall.SIGSTOP))
			awaitState(t, s.pid, "T")
			s.ok(syscall.Kill(supervisor, syscall.SIGSTOP))
			awaitState(t, supervisor, "T")
			cmd := exec.Command(tether, "stop", s.ids[0])
			cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+s.runtime)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			wantExit(t, s.wait(), "exit 143")
			s.gone()
			s.endedWhole("signal")
		})
	}
}

// cpuTime is what a process has used so far.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0
	}
	noError(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := number(t, fields[11]) + number(t, fields[12])
	return time.Duration(ticks) * 10 * time.Millisecond
}
