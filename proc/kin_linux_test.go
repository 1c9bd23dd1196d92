package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	case "echo":
		report(name)
		_, _ = io.Copy(os.NewFile(lifelineFD, "lifeline"), os.Stdin)
		return
	case "catch":
		catchAll()
		return
	case "ignore":
		for _, sig := range []syscall.Signal{syscall.SIGPIPE, syscall.SIGHUP} {
			if err := Ignore(sig); err != nil {
				fail(err.Error())
			}
		}
	case "nest":
		spawn("rest", nil)
	case "daemon":
		spawn("rest", &syscall.SysProcAttr{Setsid: true})
		return
	case "family":
		spawn("rest", nil)
		spawnFromThread("rest")
		spawn("nest", &syscall.SysProcAttr{Setpgid: true})
		// The dead one between is left unreaped.
		_ = unix.Waitid(unix.P_PID, spawn("daemon", nil), nil, unix.WEXITED|unix.WNOWAIT, nil)
	case "headless":
		headless()
	case "signal-root":
		signalRoot()
		return
	case "reuse":
		reuse()
		return
	default:
		fail("no such role: " + name)
	}
	report(name)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func fail(what string) {
	fmt.Fprintln(os.Stderr, what)
	os.Exit(9)
}

func report(name string) {
	_, _ = unix.Write(lifelineFD, fmt.Appendf(nil, "%s %d\n", name, os.Getpid()))
}

// spawn starts a role with the same two pipes, and leaves it unreaped.
func spawn(name string, attr *syscall.SysProcAttr) int {
	p, err := os.StartProcess(SelfExe, []string{"kin", "role", name}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, os.NewFile(lifelineFD, "lifeline")},
		Sys:   attr,
	})
	if err != nil {
		fail(err.Error())
	}
	return p.Pid
}

// spawnFromThread starts a role from a thread that is not the main one and lives on: the kernel lists children by the
// thread that forked them.
func spawnFromThread(name string) {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		spawn(name, nil)
		done <- true
		select {}
	}()
	<-done
}

// Package variables are set on the main thread, and a role stays there: "headless" must end that very thread.
var _ = holdMainThread()

func holdMainThread() bool {
	if len(os.Args) > 1 && os.Args[1] == "role" {
		runtime.LockOSThread()
	}
	return true
}

// headless ends the main thread alone. What is left of the process looks like a zombie at first sight.
func headless() {
	go func() {
		awaitMainThread()
		report("headless")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	// Not raw: the scheduler must know that this thread has let go.
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// awaitMainThread waits until the main thread has ended, which nothing but the process table tells.
func awaitMainThread() {
	var r Reader
	for {
		if s, err := r.Stat(os.Getpid()); err == nil && s.State == 'Z' {
			return
		}
		runtime.Gosched()
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

// startKin starts a role and waits for as many reports.
func startKin(t *testing.T, name string, reports int, attr *syscall.SysProcAttr) *kin {
	t.Helper()
	in, release := pipe(t)
	life, hold := pipe(t)
	cmd := exec.Command(SelfExe, "role", name)
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr = in, os.Stderr, []*os.File{hold}, attr
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

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// await reads one report and returns its pid.
func (k *kin) await() int {
	k.t.Helper()
	line := k.line()
	_, number, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		k.t.Fatalf("odd report %q", line)
	}
	k.pids = append(k.pids, pid)
	return pid
}

func (k *kin) line() string {
	k.t.Helper()
	_ = k.life.SetReadDeadline(time.Now().Add(patience))
	line, err := k.lines.ReadString('\n')
	if err != nil {
		k.t.Fatalf("wait for a report: %v", err)
	}
	return line
}

// dead waits until all of the family have ended.
func (k *kin) dead() {
	k.t.Helper()
	_ = k.life.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, k.lines); err != nil {
		k.t.Fatalf("wait for the end of %v: %v", k.pids, err)
	}
}

// end releases the family and waits for its end; those that were adopted are reaped.
func (k *kin) end() {
	k.stdin.Close()
	k.dead()
	k.life.Close()
	for _, pid := range append(k.pids, k.pid) {
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

// subreaper gives the test that role until it ends.
func subreaper(t *testing.T) {
	t.Helper()
	if err := BecomeSubreaper(); err != nil {
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
}
