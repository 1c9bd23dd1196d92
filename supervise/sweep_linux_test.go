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

	"mcp-tether/internal/testkit"
	"mcp-tether/proc"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

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
			testkit.Need(t, err == nil, "to trace another process")
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
