package front

import (
	"testing"

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
