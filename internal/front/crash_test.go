package front

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// conversation is a front with a client and a server: says passes a line of either, and hears is what the client gets.
func conversation(t *testing.T) (f *front, says func(line string), hears func() string) {
	t.Helper()
	f, toRelay, fromRelay := withClient(t, awake)
	var child proc.Child
	closeTheirs, err := f.relay.Connect(&child)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeTheirs)
	says = func(line string) {
		t.Helper()
		to := toRelay
		if strings.Contains(line, `"result"`) || strings.Contains(line, "acknowledged") {
			to = child.Stdout
		}
		if _, err := unix.Write(to, []byte(line)); err != nil {
			t.Fatal(err)
		}
		copyOnce(f)
		copyOnce(f)
	}
	hears = func() string {
		got := make([]byte, 64<<10)
		if err := unix.SetNonblock(fromRelay, true); err != nil {
			t.Fatal(err)
		}
		n, _ := unix.Read(fromRelay, got)
		return string(got[:max(n, 0)])
	}
	return f, says, hears
}
