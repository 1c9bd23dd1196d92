package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/internal/testkit"

	"golang.org/x/sys/unix"
)

// shell is a child that runs a script and then ends; $0 is a file for its findings.
func shell(script, file string) Child {
	return Child{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script, file}, Env: os.Environ(), CgroupFD: -1, CgroupProcs: -1,
	}
}

// result runs a child to its end and returns what it wrote.
func result(t *testing.T, c Child) string {
	t.Helper()
	pid, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if ws := wait(t, pid); ExitCode(ws) != 0 {
		t.Fatalf("exit code %d", ExitCode(ws))
	}
	b, err := os.ReadFile(c.Argv[len(c.Argv)-1])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func statusMask(t *testing.T, status, field string) uint64 {
	t.Helper()
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			m, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	t.Fatalf("no %s in %q", field, status)
	return 0
}

// neverMasked are SIGKILL and SIGSTOP.
const neverMasked = 1<<(syscall.SIGKILL-1) | 1<<(syscall.SIGSTOP-1)

// Signals: the child has exactly the mask and the ignored signals that it is to inherit. Nothing is left of this
// process's own, a Go program with a handler for nearly every signal.
func TestStartSignals(t *testing.T) {
	bits := func(sigs ...syscall.Signal) (m uint64) {
		for _, s := range sigs {
			m |= signalBit(s)
		}
		return m
	}
	for _, want := range []AtExec{
		{},
		{Mask: bits(syscall.SIGUSR1), Ignored: bits(syscall.SIGHUP)},
		{Mask: bits(syscall.SIGTERM, syscall.SIGCHLD, 40, 64), Ignored: bits(syscall.SIGPIPE, syscall.SIGURG, syscall.SIGUSR2, 33)},
		{Ignored: ^uint64(0) &^ neverMasked},
		{Mask: ^uint64(0) &^ neverMasked},
	} {
		c := shell("", "")
		// cp runs directly: a shell gives SIGCHLD its default back.
		c.Path, c.Argv = "/bin/cp", []string{"cp", "/proc/self/status", filepath.Join(t.TempDir(), "status")}
		c.Inherited = want
		status := result(t, c)
		mask, ignored := statusMask(t, status, "SigBlk"), statusMask(t, status, "SigIgn")
		if mask != want.Mask || ignored != want.Ignored || statusMask(t, status, "SigCgt") != 0 {
			t.Errorf("mask %x, ignored %x; want %x, %x", mask, ignored, want.Mask, want.Ignored)
		}
	}
}

// The parent's own mask is what it was before.
func TestStartKeepsOwnMask(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &unix.Sigset_t{}, &before); err != nil {
		t.Fatal(err)
	}
	_ = result(t, shell(`echo >"$0"`, filepath.Join(t.TempDir(), "f")))
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &unix.Sigset_t{}, &after); err != nil {
		t.Fatal(err)
	}
	if maskOf(&before) != maskOf(&after) {
		t.Errorf("mask %x became %x", maskOf(&before), maskOf(&after))
	}
}

func TestStartFiles(t *testing.T) {
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	c := shell(`{ ulimit -Sn; ulimit -Hn; } >"$0"`, filepath.Join(t.TempDir(), "f"))
	c.Inherited.Files = syscall.Rlimit{Cur: 77, Max: own.Max}
	want := "77\n" + strings.Replace(strconv.FormatUint(own.Max, 10), "18446744073709551615", "unlimited", 1) + "\n"
	if got := result(t, c); got != want {
		t.Errorf("limits %q, want %q", got, want)
	}
}

func TestStartClosedStreams(t *testing.T) {
	for closed := range uint64(8) {
		c := shell(`for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && s="$s$n"; done; echo "$s" 9>"$0" >&9`, filepath.Join(t.TempDir(), "f"))
		c.Inherited.Closed = closed
		want := ""
		for n := range 3 {
			if closed&(1<<n) == 0 {
				want += strconv.Itoa(n)
			}
		}
		if got := strings.TrimSpace(result(t, c)); got != want {
			t.Errorf("closed %03b: open are %q, want %q", closed, got, want)
		}
	}
}

// No descriptor of ours reaches the child, and each one that was passed on purpose does.
func TestStartDescriptors(t *testing.T) {
	passed, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(passed)
	var flags []int
	for fd := 3; fd < 64; fd++ {
		if n, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && n&unix.FD_CLOEXEC == 0 {
			flags = append(flags, fd)
		}
	}
	c := shell(`n=0; while [ $n -lt 64 ]; do [ -e /proc/$$/fd/$n ] && echo $n; n=$((n+1)); done >"$0"`, filepath.Join(t.TempDir(), "f"))
	got := strings.Fields(result(t, c))
	seen := map[string]bool{}
	for _, fd := range got {
		seen[fd] = true
	}
	for _, fd := range flags {
		if !seen[strconv.Itoa(fd)] {
			t.Errorf("descriptor %d was lost: %v", fd, got)
		}
		delete(seen, strconv.Itoa(fd))
	}
	for fd := range seen {
		// dash keeps none above 2 while it runs this.
		if n, _ := strconv.Atoi(fd); n > 2 && n < 10 {
			t.Errorf("descriptor %s leaked: %v", fd, got)
		}
	}
}

func TestStartGroupAndSession(t *testing.T) {
	for name, c := range map[string]Child{"none": {}, "group": {NewGroup: true}, "session": {NewSession: true}, "both": {NewGroup: true, NewSession: true}} {
		run := shell(`cat /proc/$$/stat >"$0"`, filepath.Join(t.TempDir(), "f"))
		run.NewGroup, run.NewSession = c.NewGroup, c.NewSession
		s, err := parseStat([]byte(result(t, run)))
		if err != nil {
			t.Fatal(err)
		}
		leadsGroup, leadsSession := s.PGRP == s.PID, s.Session == s.PID
		if leadsGroup != (c.NewGroup || c.NewSession) || leadsSession != c.NewSession {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestStartScriptWithoutInterpreterLine(t *testing.T) {
	dir := t.TempDir()
	script, out := filepath.Join(dir, "a script"), filepath.Join(dir, "out")
	testkit.WriteProgram(t, script, []byte("printf '%s|' \"$0\" \"$@\" >\"$2\"\n"))
	c := Child{Path: script, Argv: []string{"other name", "a  b", out}, Env: os.Environ(), CgroupFD: -1, CgroupProcs: -1}
	if got, want := result(t, c), script+"|a  b|"+out+"|"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c.Argv[0] != "other name" || len(c.Argv) != 3 {
		t.Errorf("the caller's arguments became %q", c.Argv)
	}
}

func TestStartReportsErrno(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	testkit.WriteProgram(t, filepath.Join(dir, "lost"), []byte("#!/no/such\n"))
	for path, want := range map[string]syscall.Errno{
		dir + "/none":                    syscall.ENOENT,
		dir:                              syscall.EACCES,
		"/dev/null/x":                    syscall.ENOTDIR,
		"/dev/null":                      syscall.EACCES,
		file("plain", "echo", 0o644):     syscall.EACCES,
		dir + "/lost":                    syscall.ENOENT,
		file("closed", "echo", 0):        syscall.EACCES,
		dir + strings.Repeat("/x", 3000): syscall.ENAMETOOLONG,
	} {
		pid, err := Start(Child{Path: path, Argv: []string{"x"}, Env: nil, CgroupFD: -1, CgroupProcs: -1})
		if !errors.Is(err, want) || pid != 0 {
			t.Errorf("%.60s: pid %d, %v; want %v", path, pid, err, want)
		}
	}
	for what, c := range map[string]Child{
		"NUL in path":     {Path: "a\x00b", Argv: []string{"x"}},
		"NUL in argument": {Path: "/bin/true", Argv: []string{"x", "\x00"}},
		"NUL in variable": {Path: "/bin/true", Argv: []string{"x"}, Env: []string{"A=\x00"}},
	} {
		c.CgroupFD, c.CgroupProcs = -1, -1
		if _, err := Start(c); err == nil {
			t.Errorf("%s: started", what)
		}
	}
	// A failed exec leaves no child to be reaped.
	if left, err := Reap(func(pid int, _ unix.WaitStatus) { t.Errorf("left child %d", pid) }); left || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

// Arguments and environment arrive as they are: empty ones, many, and odd bytes.
func TestStartArgumentsAndEnvironment(t *testing.T) {
	c := shell(`{ cat /proc/$$/cmdline; printf '|'; cat /proc/$$/environ; } >"$5"`, "")
	out := filepath.Join(t.TempDir(), "f")
	c.Argv = append(c.Argv[:3], "zero", "", "\xff\n", "a'b\"", strings.Repeat("x", 100_000), out)
	c.Env = []string{"A=", "B=\xff\n", "no assignment", "A=twice"}
	want := strings.Join(c.Argv, "\x00") + "\x00|" + strings.Join(c.Env, "\x00") + "\x00"
	if got := result(t, c); got != want {
		t.Errorf("got %.200q, want %.200q", got, want)
	}
}

// The child of a thread that ends is killed with it when that was asked for, and not otherwise.
func TestStartDiesWithThread(t *testing.T) {
	for _, dies := range []bool{true, false} {
		in, release := testkit.Pipe(t)
		pids := make(chan int)
		go onEndingThread(func() {
			c := Child{Path: "/bin/sh", Argv: []string{"sh", "-c", fmt.Sprintf("read x </proc/self/fd/%d; exit 7", in.Fd())}, CgroupFD: -1, CgroupProcs: -1}
			keepOverExec(in)
			c.DiesWithThread = dies
			pid, err := Start(c)
			if err != nil {
				t.Error(err)
			}
			pids <- pid
		})
		pid := <-pids
		in.Close()
		if !dies {
			release.Close()
		}
		want := 7
		if dies {
			want = 128 + int(syscall.SIGKILL)
		}
		if got := ExitCode(wait(t, pid)); got != want {
			t.Errorf("dies with its thread %v: exit code %d, want %d", dies, got, want)
		}
		release.Close()
	}
}

// onEndingThread runs f on a thread that ends with it: a locked one, but not the main thread, which the runtime keeps.
func onEndingThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onEndingThread(f)
	}()
	<-done
}

func keepOverExec(f *os.File) { _, _ = unix.FcntlInt(f.Fd(), unix.F_SETFD, 0) }

// Streams: a child may have others than the caller's, and the caller's own stay as they are.
func TestChildHasTheStreamsThatItWasGiven(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte("question"), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := unix.Open(in, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(from)
	to, err := unix.Open(out, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(to)
	c := shell("cat", out)
	c.Stdin, c.Stdout = from, to
	if got := result(t, c); got != "question" {
		t.Errorf("the child wrote %q", got)
	}
}

// Reopen: the new description does not block, the old one still does.
func TestReopenLeavesTheFirstDescriptionAlone(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	again, err := Reopen(p[0], unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	if _, err := unix.Read(again, make([]byte, 1)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the new description blocks: %v", err)
	}
	if flags, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("the old description has flags %#x, %v", flags, err)
	}
	s, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s[0])
	defer unix.Close(s[1])
	if _, err := Reopen(s[0], unix.O_RDWR); !errors.Is(err, unix.ENXIO) {
		t.Errorf("a socket was reopened: %v", err)
	}
}

// closedPipe is a pipe that is closed when the test is over.
func closedPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w = testkit.Pipe(t)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// heldUp gives a child that cannot execute anything until a pipe is read, and the pipe's read end.
func heldUp(t *testing.T) (c Child, r *os.File) {
	t.Helper()
	r, w := closedPipe(t)
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	c = shell("exit 7", "")
	c.CgroupProcs = int(w.Fd())
	return c, r
}

// Another goroutine may have waited for a child whose exec has failed. Its pid may then be another process's, for which a
// grandchild stands here.
func TestFailedChildThatWasWaitedForIsNotKilled(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `sleep 1000 & echo $!; wait $!; echo $?`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid, code int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	endFailed(pid)
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if _, err := fmt.Fscan(out, &code); err != nil || code != 128+int(unix.SIGTERM) {
		t.Errorf("exit code %d, %v", code, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// An error tells whether the cgroup is to blame: clone3, the move and the exec may each fail.
func TestStartTellsWhatFailed(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	missing := shell("exit 7", "")
	missing.Path = "/nonexistent"
	born, moved := missing, missing
	born.CgroupFD, moved.CgroupProcs = int(null.Fd()), int(null.Fd()) // neither a cgroup, nor open for writing
	for what, c := range map[string]struct {
		Child
		notMoved bool
		errno    error
	}{"exec": {missing, false, unix.ENOENT}, "clone3": {born, true, unix.EBADF}, "move": {moved, true, unix.EBADF}} {
		if _, err := Start(c.Child); errors.Is(err, ErrNotMoved) != c.notMoved || what != "clone3" && !errors.Is(err, c.errno) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A child may not get to its exec, for example because its file system does not answer. Such a child holds up nothing
// else that the caller waits for.
func TestStartIsNotHeldUp(t *testing.T) {
	c, _ := heldUp(t)
	r, w := closedPipe(t)
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	c.Until = []unix.PollFd{{Fd: -1}, {Fd: int32(r.Fd()), Events: unix.POLLIN}}
	pid, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := SignalChild(pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if ws := wait(t, pid); ExitCode(ws) != 128+int(unix.SIGKILL) {
		t.Errorf("it has ended with %d by itself", ExitCode(ws))
	}
}

// Where the exec has a limit, the child is ended, and the error says why.
func TestStartHasALimit(t *testing.T) {
	c, _ := heldUp(t)
	r, _ := closedPipe(t)
	c.Until, c.Limit = []unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}, 50*time.Millisecond
	pid, err := Start(c)
	if !errors.Is(err, errHeldUp) {
		t.Errorf("pid %d, error %v", pid, err)
	}
	if HasChildren() {
		t.Error("the child is left")
	}
}

// The control: as long as nothing else has happened, Start waits, and tells what becomes of the exec.
func TestStartWaitsForTheExec(t *testing.T) {
	for name, path := range map[string]string{"executes": "/bin/sh", "fails": "/nowhere"} {
		t.Run(name, func(t *testing.T) {
			c, held := heldUp(t)
			c.Path = path
			r, _ := closedPipe(t)
			c.Until = []unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}
			go func() { _, _ = held.Read(make([]byte, 4096)) }()
			pid, err := Start(c)
			if path == "/nowhere" {
				if !errors.Is(err, unix.ENOENT) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if ws := wait(t, pid); ExitCode(ws) != 7 {
				t.Errorf("exit code %d", ExitCode(ws))
			}
		})
	}
}
