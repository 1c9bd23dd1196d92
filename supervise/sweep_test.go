package supervise

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/testkit"
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
	file := filepath.Join(leavesMaster(t), "master")
	s := &Session{}
	s.opts.HasDead = func() bool { return true }
	tr := s.newTree()
	s.sweep()
	defer s.endSweep()
	copied := s.sweeper.PID
	master := daemonIn(t, file)
	orphanOf := func(pids ...int) func() bool {
		return func() bool {
			st, err := s.reader.Stat(master.PID)
			return err == nil && slices.Contains(pids, st.PPID)
		}
	}
	testkit.Until(t, "the daemon is an orphan", orphanOf(copied, os.Getpid()))
	expectMembers(t, &tr.scope, "amid the sweep", nil)

	all, err := s.reader.Descendants(os.Getpid())
	inSweep := func(p proc.Stat) bool { return p.Session == copied }
	if err != nil || !slices.ContainsFunc(all, func(p proc.Stat) bool { return inSweep(p) && p.PPID == copied }) {
		t.Errorf("the sweep is not below %d: %v, %v", copied, all, err)
	}
	s.endSweep()
	testkit.Until(t, "the end of the sweep", func() bool {
		_, _ = proc.Reap(func(int, unix.WaitStatus) {})
		all, err := s.reader.Descendants(os.Getpid())
		return err == nil && !slices.ContainsFunc(all, inSweep)
	})
	testkit.Until(t, "the daemon is an orphan of ours", orphanOf(os.Getpid()))
	if st, err := s.reader.Stat(master.PID); err != nil || st.ID != master || st.Dead() {
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
