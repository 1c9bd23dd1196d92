package proc

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

func TestSignalReachesItsProcess(t *testing.T) {
	k := testkit.Start(t, "rest", 1, nil)
	var r Reader
	s, err := r.Stat(k.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Signal(s.ID, 0); err != nil {
		t.Errorf("ask: %v", err)
	}
	if err := r.Signal(s.ID, syscall.SIGTERM, syscall.SIGCONT); err != nil && !errors.Is(err, ErrGone) {
		t.Errorf("end: %v", err)
	}
	awaitExit(t, k.PID)
	if ended, err := HasExited(k.PID); !ended || err != nil {
		t.Errorf("ended %v, %v", ended, err)
	}
	// A zombie keeps its pid and start time, but a signal can no longer reach it.
	if err := r.Signal(s.ID, syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("signal to a zombie: %v, want ErrGone", err)
	}
	if ws := wait(t, k.PID); ExitCode(ws) != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", ExitCode(ws))
	}
	if err := r.Signal(s.ID, syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("signal to nobody: %v, want ErrGone", err)
	}
}

// An identity with another start time belongs to another process.
func TestSignalSparesAnotherStartTime(t *testing.T) {
	k := testkit.Start(t, "echo", 1, nil)
	var r Reader
	s, err := r.Stat(k.PID)
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []uint64{0, s.Start - 1, s.Start + 1} {
		if err := r.Signal(ID{k.PID, start}, syscall.SIGKILL); !errors.Is(err, ErrGone) {
			t.Errorf("start %d for %d: %v, want ErrGone", start, s.Start, err)
		}
		if err := r.signalByPID(ID{k.PID, start}, []syscall.Signal{syscall.SIGKILL}); !errors.Is(err, ErrGone) {
			t.Errorf("without pidfd: %v, want ErrGone", err)
		}
	}
	answers(t, k)
}

// The number of a thread is no process's. kill(2) takes it for that of the thread's process all the same.
func TestSignalSparesProcessOfThread(t *testing.T) {
	k := testkit.Start(t, "echo", 1, nil)
	var tids []int
	testkit.Until(t, "a second thread", func() bool {
		all, err := pids(Path(k.PID, "task"))
		tids = slices.DeleteFunc(all, func(tid int) bool { return tid == k.PID })
		return err == nil && len(tids) > 0
	})
	var r Reader
	for _, tid := range tids {
		s, err := r.Stat(tid) // /proc shows a thread like a process
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Signal(s.ID, syscall.SIGKILL); err == nil {
			t.Errorf("thread %d was signalled", tid)
		}
		if err := r.signalByPID(s.ID, []syscall.Signal{syscall.SIGKILL}); !errors.Is(err, ErrGone) {
			t.Errorf("thread %d without pidfd: %v, want ErrGone", tid, err)
		}
	}
	answers(t, k)
	s, err := r.Stat(k.PID)
	if err == nil {
		err = r.signalByPID(s.ID, []syscall.Signal{syscall.SIGKILL})
	}
	if err != nil {
		t.Errorf("its process: %v", err)
	}
	k.Dead()
}

// A process goes on after its first thread has ended, and is still reached.
func TestSignalWithoutPidfdReachesHeadless(t *testing.T) {
	k := testkit.Start(t, "headless", 1, nil)
	s, err := new(Reader).Stat(k.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := new(Reader).signalByPID(s.ID, []syscall.Signal{syscall.SIGKILL}); err != nil {
		t.Error(err)
	}
	k.Dead()
}

var (
	_ = testkit.Role("echo", echo)
	_ = testkit.Role("signal-root", signalRoot)
)

// echo says on the lifeline what it reads.
func echo() {
	testkit.Report("echo")
	_, _ = io.Copy(testkit.Lifeline(), os.Stdin)
}

// answers makes sure that an "echo" has not been killed: a pending SIGKILL would keep it from answering.
func answers(t *testing.T, k *testkit.Kin) {
	t.Helper()
	if _, err := k.Stdin.WriteString("still 1\n"); err != nil {
		t.Fatal(err)
	}
	if got := k.Await(); got != 1 {
		t.Fatalf("answered %d", got)
	}
	k.PIDs = k.PIDs[:len(k.PIDs)-1]
}

func TestSignalRefusesInitAndItself(t *testing.T) {
	var r Reader
	own, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []ID{own.ID, {1, 0}, {0, 0}, {-1, 0}, {-os.Getpid(), own.Start}} {
		if err := r.Signal(id, syscall.SIGKILL); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("%v: %v, want a refusal", id, err)
		}
	}
	for _, pid := range []int{1, 0, -1} {
		if err := SignalChild(pid, syscall.SIGKILL); err == nil {
			t.Errorf("child %d was not refused", pid)
		}
	}
}

// A process of another user is not gone: it is out of reach.
func TestSignalAnotherUser(t *testing.T) {
	testkit.Need(t, testkit.Root)
	mounts, err := os.ReadFile("/proc/self/mounts")
	testkit.Lacks(t, testkit.Kernel, !(err == nil && !strings.Contains(string(mounts), "hidepid=")), "a /proc without hidepid")
	k := testkit.Start(t, "signal-root", 1, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	if pid := k.PIDs[0]; pid != k.PID {
		t.Fatal(pid)
	}
	k.Dead()
	if ws := wait(t, k.PID); ExitCode(ws) != 0 {
		t.Errorf("exit code %d", ExitCode(ws))
	}
}

// signalRoot runs as nobody and tries to signal the test, its parent.
func signalRoot() {
	testkit.Report("signal-root")
	var r Reader
	s, err := r.Stat(os.Getppid())
	if err != nil {
		testkit.Fail(err.Error())
	}
	if err := r.Signal(s.ID, syscall.SIGKILL); !errors.Is(err, unix.EPERM) || errors.Is(err, ErrGone) {
		testkit.Fail("signal to a process of root: " + err.Error())
	}
	if err := r.signalByPID(s.ID, []syscall.Signal{syscall.SIGKILL}); !errors.Is(err, unix.EPERM) {
		testkit.Fail("without pidfd: " + err.Error())
	}
}

// wait reaps a child.
func wait(t *testing.T, pid int) unix.WaitStatus {
	t.Helper()
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &ws, unix.WALL, nil)
		if err == nil {
			return ws
		}
		if err != unix.EINTR {
			t.Fatalf("wait for %d: %v", pid, err)
		}
	}
}

// Seen to fail where the end by the first signal, which the parent has waited for, counts as not reached.
func TestSendAllEndsWithTheFirst(t *testing.T) {
	sent := 0
	send := func(fails int) func(syscall.Signal) error {
		sent = 0
		return func(syscall.Signal) error {
			if sent++; sent == fails {
				return unix.ESRCH
			}
			return nil
		}
	}
	both := []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}
	if err := sendAll(ID{PID: 2}, both, send(2)); err != nil {
		t.Errorf("gone by the first: %v", err)
	}
	if err := sendAll(ID{PID: 2}, both, send(1)); !errors.Is(err, ErrGone) || sent != 1 {
		t.Errorf("gone before: %v after %d", err, sent)
	}
}
