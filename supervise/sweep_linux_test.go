package supervise

import (
	"fmt"
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

const envTraced = "SUPERVISE_TEST_TRACED"

// TestHoldsByTrace is the tracer of the tests: it seizes a process until its own input ends, and never waits for it.
func TestHoldsByTrace(t *testing.T) {
	pid, err := strconv.Atoi(os.Getenv(envTraced))
	if err != nil {
		return
	}
	runtime.LockOSThread()
	fmt.Println(unix.PtraceSeize(pid))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

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
		tracer := exec.Command(os.Args[0], "-test.run=^TestHoldsByTrace$")
		tracer.Env = append(os.Environ(), fmt.Sprintf("%s=%d", envTraced, sweep.Process.Pid))
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
			said := make([]byte, len("<nil>"))
			_, err := io.ReadFull(out, said)
			testkit.Need(t, err == nil && string(said) == "<nil>", "to trace another process")
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
		case <-time.After(10 * time.Second):
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
