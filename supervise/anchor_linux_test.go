package supervise

import (
	"testing"
	"time"
)

// The watchdog's steps, but for the one that sends SIGKILL: TestWatchdog of the end-to-end tests has that.
func TestEscalate(t *testing.T) {
	for _, c := range []struct {
		from  patience
		dying bool
		to    patience
		waits bool // for longer than before
	}{
		{short, false, full, true},
		{short, true, killed, true},
		{full, true, killed, true},
		{killed, true, killed, false}, // or one that is traced would be waited for again and again
		{killed, false, spent, false},
	} {
		asked := time.Now()
		g := guard{patience: c.from, asked: asked, escalateAt: asked, options: Defaults}
		g.escalate(c.dying)
		if g.patience != c.to || g.escalateAt.After(asked) != c.waits {
			t.Errorf("%d (dying: %v) goes to %d, waiting until %v; want %d, waiting: %v", c.from, c.dying, g.patience, g.escalateAt, c.to, c.waits)
		}
	}
}
