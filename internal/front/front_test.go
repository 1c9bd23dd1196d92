package front

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"mcp-tether/internal/session"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
)

// A backend that does not end is reminded, and then its anchor is killed. One that ends in time gets neither signal.
func TestPress(t *testing.T) {
	f, _, _ := withClient(t, falling)
	f.o.EndLimit = time.Hour
	cmd := exec.Command("/bin/sh", "-c", `trap 'echo reminded' TERM; echo up; while :; do read x; done`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, w := testkit.Pipe(t)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	f.back.pid = cmd.Process.Pid
	hear := func(want string) {
		t.Helper()
		buf := make([]byte, 100)
		if n, err := r.Read(buf); err != nil || string(buf[:n]) != want {
			t.Fatalf("it says %q, %v; want %q", buf[:n], err, want)
		}
	}
	hear("up\n")
	f.expectEnd()
	f.onTime(time.Now())
	if f.back.stage != letEnd {
		t.Error("it had time left")
	}
	f.onTime(f.back.escalateAt)
	_, _ = in.Write([]byte("\n")) // A signal just before it reads again does not end the read.
	hear("reminded\n")
	f.onTime(f.back.escalateAt)
	awaitBackend(t, f)
	if f.phase != asleep || f.record.Sleeps != 1 {
		t.Errorf("phase %v, %d sleeps", f.phase, f.record.Sleeps)
	}
	_, _ = cmd.Process.Wait()
}

// A server that closes its standard output and lives is at its end: awake, or while it wakes.
func TestServerThatClosesItsOutputIsEnded(t *testing.T) {
	for before, want := range map[phase]phase{awake: over, waking: asleep, over: over} {
		f, _, _ := withClient(t, before)
		f.o.EndLimit = time.Hour
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f.back = backend{pid: cmd.Process.Pid, began: time.Now()}
		f.onRelay([]relay.Event{{Kind: relay.ServerClosed}})
		if before == over { // It has the time of --eof-grace.
			if !f.due().IsZero() {
				t.Error("a server is hurried at the end of its session")
			}
			_ = cmd.Process.Kill()
			_, _ = cmd.Process.Wait()
			continue
		}
		if due := f.due(); due.IsZero() || f.phase != before {
			t.Fatalf("phase %v, due at %v", f.phase, due)
		}
		f.onTime(f.due())
		if awaitBackend(t, f); f.phase != want {
			t.Errorf("phase %v, want %v", f.phase, want)
		}
		_, _ = cmd.Process.Wait()
	}
}

// A stopped backend would never end: it is continued. The control is stopped as well, and nobody looks at it.
func TestStoppedBackendIsContinued(t *testing.T) {
	f, _, _ := withClient(t, awake)
	var pids []int
	for range 2 {
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		t.Cleanup(func() { in.Close(); _ = unix.Kill(pid, unix.SIGCONT); _ = cmd.Wait() })
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	state := func(pid int) byte {
		var r proc.Reader
		st, err := r.Stat(pid)
		if err != nil {
			t.Fatal(err)
		}
		return st.State
	}
	for _, pid := range pids {
		testkit.Until(t, "it is stopped", func() bool { return state(pid) == 'T' })
	}
	f.back.pid = pids[0]
	f.onChild()
	testkit.Until(t, "it goes on", func() bool { return state(pids[0]) != 'T' })
	if state(pids[1]) != 'T' || f.back.pid != pids[0] {
		t.Error("the control goes on, or the backend is forgotten")
	}
}

// The end of the client's stream is seen behind what nobody reads. A server that has not read all by the end of the grace
// period is asked to end.
func TestClientClosesBehindAFullPipe(t *testing.T) {
	f, toRelay, _ := withClient(t, awake)
	f.o.EOFGrace, f.o.EndLimit = time.Minute, time.Hour
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.back.pid = cmd.Process.Pid
	var child proc.Child
	closeTheirs, err := f.relay.Connect(&child)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTheirs()
	if err := unix.SetNonblock(toRelay, true); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := unix.Write(toRelay, []byte(strings.Repeat("\n", 4096))); err != nil {
			if copyOnce(f); f.relay.Polls()[0].Fd < 0 {
				break // The relay waits for the server to read.
			}
		}
	}
	f.onClientClosed()
	if f.phase != over || f.cause != session.CauseStdin || f.done || f.back.asked {
		t.Fatalf("phase %v, cause %v, asked %t", f.phase, f.cause, f.back.asked)
	}
	f.onTime(f.clock.closeBy)
	if !f.back.asked {
		t.Error("the server is waited for")
	}
	f.clock.closeBy = time.Now()
	awaitBackend(t, f)
	f.onTime(f.clock.closeBy) // It may be due in the turn in which the server has ended.
	if !f.done || f.back.code != 128+int(unix.SIGTERM) {
		t.Errorf("done %t, code %d", f.done, f.back.code)
	}
	_, _ = cmd.Process.Wait()
}
