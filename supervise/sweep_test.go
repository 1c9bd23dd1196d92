package supervise

import (
	"io"
	"os"
	"os/exec"
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
		for {
			_, _ = unix.Poll(nil, -1)
		}
	}
	os.Exit(testkit.Run(m))
}

// The sweep is no member of the session, and ends with it. The control is the same process when nobody says that it is the sweep.
func TestTheSweepIsNoMember(t *testing.T) {
	s := &Session{}
	s.opts.HasDead = func() bool { return true }
	tr := s.newTree()
	s.startSweep()
	defer s.endSweep()
	sweep := s.sweeper
	s.recovers = true // As one that takes over, which knows it by the page.
	for name, c := range map[string]struct {
		tree *tree
		want int
	}{"the starter's": {tr, 0}, "a later one's": {s.newTree(), 0}, "control": {(&Session{}).newTree(), 1}} {
		if members, _, err := c.tree.members.Members(); len(members) != c.want || err != nil {
			t.Errorf("%s tree: members %v, %v", name, members, err)
		}
	}
	s.endSweep()
	if s.reader.Life(sweep) != proc.Dead {
		t.Error("the sweep goes on")
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
