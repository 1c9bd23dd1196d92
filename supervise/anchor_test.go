package supervise

import (
	"testing"
	"time"
)

// The watchdog's steps, except the one that sends SIGKILL: e2e/watchdog_test.go covers that.
func TestEscalate(t *testing.T) {
	for _, c := range []struct {
		from  stage
		dying bool
		to    stage
		waits bool // for longer than before
	}{
		{usualWait, false, longestWait, true},
		{usualWait, true, killed, true},
		{longestWait, true, killed, true},
		{killed, true, killed, false}, // otherwise a traced supervisor would be waited for again and again
		{killed, false, unkillable, false},
	} {
		asked := time.Now()
		g := guard{stage: c.from, asked: asked, escalateAt: asked, options: Defaults}
		g.escalate(c.dying)
		if g.stage != c.to || g.escalateAt.After(asked) != c.waits {
			t.Errorf("%d (dying: %v) goes to %d, waiting until %v; want %d, waiting: %v", c.from, c.dying, g.stage, g.escalateAt, c.to, c.waits)
		}
	}
}
