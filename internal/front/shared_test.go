package front

import (
	"testing"
	"time"

	"mcp-tether/internal/share"
)

// A server behind a host that does not answer in time ends no session: the message that waits gets an error, and the next one
// tries again. Seen to fail where the host's end was waited for.
func TestHostThatIsGivenUp(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	f, _, _ := withClient(t, waking)
	var err error
	if f.o.Finder, err = share.NewFinder([]string{"mcp-tether", "run", "x"}); err != nil {
		t.Fatal(err)
	}
	f.back.attached = true
	f.wakeFailed("it is late")
	if f.phase != asleep || f.done || f.back.there() || f.pauses.why != "it is late" || f.clock.retryAt.IsZero() {
		t.Errorf("phase %v, done %t, %+v, %+v", f.phase, f.done, f.back, f.pauses)
	}
}

// While the next host is looked for, no clock of the last one runs. Seen to be given up without end, because there was no
// server that could end.
func TestNextHostMayTakeLong(t *testing.T) {
	f, _, _ := withClient(t, waking)
	f.o.Finder = &share.Finder{}
	now := time.Now()
	f.clock.wakeBy = now
	f.tryNextHost(now.Add(time.Hour))
	f.onTime(now)
	if due := f.due(); f.phase != waking || !due.Equal(now.Add(time.Hour)) {
		t.Errorf("phase %v, due in %v", f.phase, due.Sub(now))
	}
}

// A client that closes its end between two hosts gets its answers from the next one.
func TestBetweenTwoHosts(t *testing.T) {
	f, _, _ := withClient(t, waking)
	f.o.Finder = &share.Finder{}
	f.tryNextHost(time.Now().Add(time.Hour))
	f.onClientClosed()
	if f.phase != waking || f.done || !f.closing || f.clock.attachAt.IsZero() {
		t.Errorf("phase %v, done %t, closing %t", f.phase, f.done, f.closing)
	}
}
