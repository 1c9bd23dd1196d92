package proc

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"mcp-tether/e2e/testkit"
)

// With the collector's wake-ups stopped, it runs when the limit is near, and only then.
func TestPauseGC(t *testing.T) {
	for mib, runs := range map[string]bool{"12": true, "400": false} {
		out, err := testkit.Command(t, "dropper", mib).Output()
		if n, atoiErr := strconv.Atoi(string(out)); err != nil || atoiErr != nil || (n > 0) != runs {
			t.Errorf("with %s MiB, and 100 MB dropped, the collector ran %s times: %v", mib, out, err)
		}
	}
}

var _ = testkit.Role("dropper", func() {
	mib, _ := strconv.Atoi(testkit.RoleArgs()[0])
	PauseGC(int64(mib) << 20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var last []byte
	for range 100_000 {
		last = make([]byte, 1000)
	}
	runtime.KeepAlive(last)
	runtime.ReadMemStats(&after)
	fmt.Fprint(os.Stdout, after.NumGC-before.NumGC)
})
