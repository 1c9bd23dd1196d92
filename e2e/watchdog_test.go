package e2e

import (
	"time"

	"mcp-tether/internal/stage"
)

// A supervisor that lives and does nothing: the anchor is its watchdog. And an anchor that does nothing.

// own puts what the gateway starts into a terminal session of its own. In the gateway's, the kernel itself would
// continue a stopped process group whose gateway ends.
var own = []string{"setsid=1"}

// state is the one letter of a process's state, "" when there is no such process.
func state(pid int) string { return stage.Describe(pid).State }

// patienceWithStuck is the longest that a stuck supervisor may keep its session: the graces of these tests, and the margin.
const (
	stuckGraces = 3300 * time.Millisecond
	stuckMargin = 5 * time.Second
)
