package teardown

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/proc"
)

// Real processes by executing the test binary again in a role. Each of them holds two pipes: standard input, at whose
// end of file it ends, and fd 3, the lifeline, on which it says "role pid" once it is up and whose end of file says that
// all of them are dead.

const (
	lifelineFD = 3
	// patience bounds every wait. It is no measure of speed: a test that gets here has failed.
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "role" {
		role(os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func role(name string) {
	switch name {
	case "rest":
	case "nest": // one child, without any environment
		spawn("rest", nil)
	case "daemon": // double fork
		spawn("rest", &syscall.SysProcAttr{Setsid: true})
		return
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "stopped":
		report(name)
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	case "generation":
		// A family on the run: each generation starts the next in a session of its own, and ends. Nobody reaps.
		if !released() {
			spawn("generation", &syscall.SysProcAttr{Setsid: true})
		}
		return
	case "headless":
		headless()
	default:
		fmt.Fprintln(os.Stderr, "no such role:", name)
		os.Exit(9)
	}
	report(name)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func released() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

func report(name string) {
	_, _ = unix.Write(lifelineFD, fmt.Appendf(nil, "%s %d\n", name, os.Getpid()))
}

// spawn starts a role with the same two pipes and next to no environment, and leaves it unreaped.
func spawn(name string, attr *syscall.SysProcAttr) {
	_, err := os.StartProcess(proc.SelfExe, []string{"kin", "role", name}, &os.ProcAttr{
		Env:   []string{"GORACE=atexit_sleep_ms=0"}, // for a binary with the race detector; nothing else
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, os.NewFile(lifelineFD, "lifeline")},
		Sys:   attr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}

// need skips a test that lacks something, unless skips are forbidden.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("MCP_TETHER_NO_SKIP") != "" {
		t.Fatalf("this needs %s, and skips are forbidden", what)
	}
	t.Skipf("this needs %s", what)
}

// kin is a family of processes in roles.
type kin struct {
	t     *testing.T
	pid   int
	stdin *os.File
	life  *os.File
	lines *bufio.Reader
	pids  []int
}

// start starts a role and waits for as many reports. The test must be a subreaper, or there must be no daemons.
func start(t *testing.T, name string, reports int, env ...string) *kin {
	t.Helper()
	in, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	life, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(proc.SelfExe, "role", name)
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles, cmd.Env = in, os.Stderr, []*os.File{hold}, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	hold.Close()
	k := &kin{t: t, pid: cmd.Process.Pid, stdin: release, life: life, lines: bufio.NewReader(life)}
	t.Cleanup(k.end)
	// Waited for by pid; package os shall keep no descriptor of it.
	if err := cmd.Process.Release(); err != nil {
		t.Fatal(err)
	}
	for range reports {
		k.await()
	}
	return k
}

// await reads one report.
func (k *kin) await() {
	k.t.Helper()
	_ = k.life.SetReadDeadline(time.Now().Add(patience))
	line, err := k.lines.ReadString('\n')
	if err != nil {
		k.t.Fatalf("wait for a report: %v", err)
	}
	_, number, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		k.t.Fatalf("odd report %q", line)
	}
	k.pids = append(k.pids, pid)
}

// dead waits until all of the family have ended.
func (k *kin) dead() {
	k.t.Helper()
	_ = k.life.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, k.lines); err != nil {
		k.t.Errorf("wait for the end of %v: %v", k.pids, err)
	}
}

// end releases the family and waits for its end.
func (k *kin) end() {
	k.stdin.Close()
	for _, pid := range k.pids {
		// Ours, or below us: until the wait at the end of the test none of these numbers is anybody else's.
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	k.dead()
	k.life.Close()
	for _, pid := range append(k.pids, k.pid) {
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

// own is a scope whose root is the test itself, as a subreaper until the test ends.
func own(t *testing.T) *Scope {
	t.Helper()
	if err := proc.BecomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		for { // all are dead by now
			if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
				return
			}
		}
	})
	return &Scope{Root: os.Getpid()}
}

// reapAll reaps whatever has ended, and reports whether anybody is left.
func reapAll(t *testing.T) bool {
	t.Helper()
	left, err := proc.Reap(func(int, unix.WaitStatus) {})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// awaitExit waits for the end of one process.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	fd, err := proc.OpenPidfd(pid)
	if errors.Is(err, proc.ErrGone) {
		return // reaped by whoever had adopted it
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := proc.AwaitInput(int(patience.Milliseconds()), fd); err != nil {
		t.Fatal(err)
	}
}
