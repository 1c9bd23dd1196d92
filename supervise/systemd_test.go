package supervise

import (
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// A command that says much, closes its output and then hangs holds up no start.
func TestAskSystemdIsBounded(t *testing.T) {
	done := make(chan error, 1)
	go func() {
		words := []string{"/bin/sh", "-c", "head -c 100000 /dev/zero >&2 & exec 2>&-; exec sleep 1000"}
		done <- askSystemd(words, time.Now().Add(50*time.Millisecond))
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "has not ended") {
			t.Error(err)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("it waits on")
	}
	if err := askSystemd([]string{"/bin/sh", "-c", "echo no bus >&2; exit 1"}, time.Now().Add(testkit.Patience)); err == nil || !strings.Contains(err.Error(), "no bus") {
		t.Error(err)
	}
	if err := askSystemd([]string{"/bin/true"}, time.Now().Add(testkit.Patience)); err != nil {
		t.Error(err)
	}
}
