package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"

	"golang.org/x/sys/unix"
)

// shell is a child that runs a script and then ends; $0 is a file for its findings.
func shell(script, file string) Child {
	return Child{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script, file}, Env: os.Environ(),
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

func TestStartGroupAndSession(t *testing.T) {
	for name, c := range map[string]Child{"none": {}, "group": {NewGroup: true}, "session": {NewSession: true}} {
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
	c := Child{Path: script, Argv: []string{"other name", "a  b", out}, Env: os.Environ()}
	if got, want := result(t, c), script+"|a  b|"+out+"|"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c.Argv[0] != "other name" || len(c.Argv) != 3 {
		t.Errorf("the caller's arguments became %q", c.Argv)
	}
}

// The child of a thread that ends is killed with it when that was asked for, and not otherwise.
func TestStartDiesWithThread(t *testing.T) {
	for _, dies := range []bool{true, false} {
		in, release := testkit.Pipe(t)
		pids := make(chan int)
		go onEndingThread(func() {
			c := Child{Path: "/bin/sh", Argv: []string{"sh", "-c", fmt.Sprintf("read x </proc/self/fd/%d; exit 7", in.Fd())}}
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
