package live

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/argv"
	"mcp-tether/internal/session"
)

// TestMain is a child for a user, where a test has started one: it says nothing.
func TestMain(m *testing.M) {
	if _, _, ok, _ := argv.SplitDelegatedArgs(os.Args); ok {
		os.Exit(1)
	}
	os.Exit(testkit.Run(m))
}

// However many users have sessions, a child of each is asked. Seen to leave out those behind the first 256.
func TestStopAsAsksEachUser(t *testing.T) {
	var all []Session
	for n := range 300 {
		all = append(all, Session{Record: session.Record{ID: session.NewID(), UID: 1_000_000 + n}})
	}
	unasked := func(s Stopped) bool { return s.Ended || !strings.HasPrefix(s.Error, "ask as user") }
	got := StopAs(all, os.Getuid(), time.Minute)
	if i := slices.IndexFunc(got, unasked); len(got) != len(all) || i >= 0 {
		t.Errorf("%d of %d outcomes, the first without a child: %+v", len(got), len(all), got[max(i, 0):][:1])
	}
}
