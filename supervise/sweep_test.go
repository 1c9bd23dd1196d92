package supervise

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
)

func TestMain(m *testing.M) {
	if argv.IsSweep(os.Args) {
		playSweep()
	}
	os.Exit(testkit.Run(m))
}

// playSweep asks an engine through a docker command, and goes on until it is killed.
func playSweep() {
	if err := exec.Command("docker").Run(); err != nil {
		testkit.Fail(err.Error())
	}
	for {
		_, _ = unix.Poll(nil, -1)
	}
}

// What the sweep's docker command leaves is no member of the session, and outlives it. The sweep ends with the session.
func TestWhatTheSweepLeavesIsNoMember(t *testing.T) {
	file := filepath.Join(leaveDaemon(t), "daemon")
	s := &Session{}
	s.opts.HasDead = func() bool { return true }
	tr := s.newTree()
	s.startSweep()
	defer s.endSweep()
	sweep := s.sweeper
	daemon := daemonIn(t, file)
	testkit.Until(t, "the daemon is an orphan of ours", func() bool {
		st, err := s.reader.Stat(daemon.PID)
		return err == nil && st.PPID == os.Getpid()
	})
	expectMembers(t, &tr.members, "amid the sweep", nil)
	s.endSweep()
	if s.reader.Life(sweep) != proc.Dead {
		t.Error("the sweep goes on")
	}
	expectMembers(t, &tr.members, "after the sweep", nil)
	if st, err := s.reader.Stat(daemon.PID); err != nil || st.ID != daemon || st.Dead() {
		t.Errorf("the daemon was touched: %+v, %v", st, err)
	}
}

const seized = "seized\n"

// The tracer seizes a process until its own input ends, and never waits for it.
var _ = testkit.Role("tracer", func() {
	runtime.LockOSThread()
	pid, err := strconv.Atoi(testkit.RoleArgs()[0])
	if err == nil {
		err = unix.PtraceSeize(pid)
	}
	if err != nil {
		testkit.Fail(err.Error())
	}
	_, _ = os.Stdout.WriteString(seized)
	_, _ = io.Copy(io.Discard, os.Stdin)
})

// A sweep that cannot be waited for does not hold up the end of its session: the anchor may not know of that end.
func TestSweepThatDoesNotEnd(t *testing.T) {
	for _, held := range []bool{true, false} {
		sweep := exec.Command("cat")
		sweep.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		in, err := sweep.StdinPipe()
		if err == nil {
			err = sweep.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		tracer := testkit.Command(t, "tracer", strconv.Itoa(sweep.Process.Pid))
		release, err := tracer.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := tracer.StdoutPipe()
		if err == nil && held {
			err = tracer.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if held {
			_, err := io.ReadFull(out, make([]byte, len(seized)))
			testkit.Lacks(t, testkit.Kernel, err != nil, "to trace another process")
		}
		c := &common{}
		c.sweeper = c.identity(sweep.Process.Pid)
		done := make(chan bool)
		go func() {
			c.endSweep()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(testkit.Patience):
			t.Error("the end of the session waits for it")
		}
		if _, err := proc.HasExited(sweep.Process.Pid); (err == nil) != held {
			t.Errorf("held: %t, but to be waited for: %t", held, err == nil)
		}
		release.Close()
		if held {
			_ = tracer.Wait()
		}
		<-done
		_ = sweep.Wait()
	}
}
