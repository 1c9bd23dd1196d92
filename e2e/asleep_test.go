package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
)

// A session whose server sleeps, or has not started, is one process with one thread: no Go runtime waits in it. A signal that ends
// nothing leaves it as it is, a message wakes the server, and one that ends is heard. The control is the session that is awake.
func TestAsleepHasNoRuntime(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{Flags: sleepy()}, "serve", "daemon")
	if n := len(s.Members()); n < 5 {
		t.Fatalf("control: %d processes while the server is awake", n)
	}
	for n := 1; n <= 2; n++ {
		s.asleep(n)
		s.alone()
		s.Signal(syscall.SIGUSR1)
		quiet(50 * time.Millisecond)
		s.alone()
		s.echo(10 + n)
	}
	s.asleep(3)
	s.alone()
	s.Signal(syscall.SIGTERM)
	if how := s.Wait(); how != "exit 143" {
		t.Errorf("the wrapper ended with %q", how)
	}
	s.Gone()
	s.EndedWhole("signal")
}

// alone waits until the session is one process, and expects that this has one thread.
func (s *session) alone() {
	s.t.Helper()
	var all []stage.Proc
	s.until("one process", func() bool { all = s.Members(); return len(all) == 1 })
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", all[0].PID))
	if err != nil || !strings.Contains(string(status), "\nThreads:\t1\n") || all[0].PID != s.PID {
		s.t.Errorf("asleep there is %v, %v, with more than a thread, or the client's is %d", all, err, s.PID)
	}
}
