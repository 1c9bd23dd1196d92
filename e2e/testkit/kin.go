package testkit

import (
	"bufio"
	"errors"
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

// Kin is a family of processes in roles. Each of them holds two pipes. It ends at the end of file of its standard
// input. On the lifeline it says "role pid" once it is up, and the lifeline's end of file says that all are dead.
type Kin struct {
	// PID is the first process, a child of the test; PIDs are all processes that have reported.
	PID  int
	PIDs []int
	// Stdin ends the family when it is closed.
	Stdin *os.File
	// Life is the end of the lifeline that the test reads, through Line.
	Life *os.File

	t     testing.TB
	lines *bufio.Reader
}

// Start starts a role and waits for the given number of reports. attr may be nil; env is added to the test's own
// environment. The test must be a subreaper, or there must be no daemons.
func Start(t testing.TB, role string, reports int, attr *syscall.SysProcAttr, env ...string) *Kin {
	t.Helper()
	cmd := Command(t, role)
	cmd.SysProcAttr, cmd.Env = attr, append(os.Environ(), env...)
	k := start(t, cmd)
	for range reports {
		k.Await()
	}
	return k
}

func start(t testing.TB, cmd *exec.Cmd) *Kin {
	t.Helper()
	in, release := Pipe(t)
	life, hold := Pipe(t)
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = in, os.Stderr, []*os.File{hold}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	hold.Close()
	k := &Kin{t: t, PID: cmd.Process.Pid, Stdin: release, Life: life, lines: bufio.NewReader(life)}
	t.Cleanup(k.end)
	// The process is waited for by pid, so package os shall keep no descriptor of it.
	if err := cmd.Process.Release(); err != nil {
		t.Fatal(err)
	}
	return k
}

// Pipe makes a pipe.
func Pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// Await reads one report and returns its pid.
func (k *Kin) Await() int {
	k.t.Helper()
	line := k.Line()
	_, number, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		k.t.Fatalf("odd report %q", line)
	}
	k.PIDs = append(k.PIDs, pid)
	return pid
}

// Line reads a line from the lifeline.
func (k *Kin) Line() string {
	k.t.Helper()
	_ = k.Life.SetReadDeadline(time.Now().Add(Patience))
	line, err := k.lines.ReadString('\n')
	if err != nil {
		k.t.Fatalf("wait for a report: %v", err)
	}
	return line
}

// Dead waits until all of the family have ended.
func (k *Kin) Dead() {
	k.t.Helper()
	if err := k.awaitEnd(Patience); err != nil {
		k.t.Errorf("wait for the end of %v: %v", k.PIDs, err)
	}
}

// awaitEnd waits until none of the family holds the lifeline.
func (k *Kin) awaitEnd(patience time.Duration) error {
	_ = k.Life.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, k.lines)
	return err
}

// Alive reports whether any of the family lives: it still holds the lifeline.
func (k *Kin) Alive() bool {
	fd := []unix.PollFd{{Fd: int32(k.Life.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fd, 0)
	for errors.Is(err, unix.EINTR) { // a signal may be pending, as of the runtime or of a child's end
		n, err = unix.Poll(fd, 0)
	}
	return err == nil && (n == 0 || fd[0].Revents&unix.POLLHUP == 0)
}

// end releases the family and waits for its end; those that were adopted are reaped.
func (k *Kin) end() {
	k.endWithin(Patience)
}

// endWithin is end for a given patience. Who has not ended by then is killed, or the waits would hold up the whole run.
func (k *Kin) endWithin(patience time.Duration) {
	k.Stdin.Close()
	// Each is our descendant: until the wait at the end of the test, none of these pids is another process's.
	k.signal(unix.SIGCONT)
	if err := k.awaitEnd(patience); err != nil {
		k.t.Errorf("wait for the end of %v: %v", k.PIDs, err)
		k.signal(unix.SIGKILL)
	}
	k.Life.Close()
	for _, pid := range append(k.PIDs, k.PID) {
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

// signal sends a signal to all of the family.
func (k *Kin) signal(s unix.Signal) {
	for _, pid := range append(k.PIDs, k.PID) {
		_ = unix.Kill(pid, s)
	}
}

// Spawn starts a role from within another one, with the same two pipes, and leaves it unreaped. Without env the child
// has the caller's environment.
func Spawn(name string, attr *syscall.SysProcAttr, env ...string) int {
	p, err := os.StartProcess("/proc/self/exe", []string{"kin", roleWord, name}, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, Lifeline()},
		Sys:   attr,
	})
	if err != nil {
		Fail(err.Error())
	}
	return p.Pid
}

// Headless is a role that ends only its main thread: what is left of the process looks like a zombie at first sight. It
// reports once the process table shows this.
func Headless(name string) bool {
	return Role(name, func() {
		go func() {
			awaitZombie()
			Report(name)
			Await()
			os.Exit(0)
		}()
		// Not RawSyscall: the scheduler must know that this thread has let go.
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	})
}

// awaitZombie waits until the main thread has ended, which only the process table shows.
func awaitZombie() {
	for {
		stat, err := os.ReadFile("/proc/self/stat")
		if _, rest, found := strings.Cut(string(stat), ") "); err == nil && found && strings.HasPrefix(rest, "Z") {
			return
		}
		runtime.Gosched()
	}
}
