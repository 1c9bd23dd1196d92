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

// A relay may wait for its client for a grace period of its own, at the end of the session. The watchdog allows for that.
func TestLongestEndCountsTheRelay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *Options)
		relays bool
	}{
		"plain":     {func(*Options) {}, false},
		"hibernate": {func(o *Options) { o.Hibernate = time.Minute }, true},
		"on-crash":  {func(o *Options) { o.OnCrash = OnCrashRestart }, true},
	} {
		o := Defaults()
		o.Containers = ContainersOff
		c.change(&o)
		want := o.TermGrace + o.KillTimeout
		if c.relays {
			want += o.EOFGrace
		}
		if got := longestEnd(o, "x"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
