package live

import (
	"os"
	"strings"
	"testing"
	"time"

	"mcp-tether/internal/session"
)

// A session that was seen alive, and that has removed its record since, gets the time that was asked for to let go of its
// lock.
func TestStopListedWaitsForTheLock(t *testing.T) {
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	ending, over := session.NewID(), session.NewID()
	lease, err := dir.Take(ending)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	const timeout = 200 * time.Millisecond
	began := time.Now()
	seen := Seen{Dirs: []*session.Directory{dir}}
	got := StopListed(&seen, []string{ending, over}, timeout)
	if took := time.Since(began); took < timeout {
		t.Errorf("given up after %v of %v", took, timeout)
	}
	if len(got) != 2 || got[0].Ended || !strings.HasPrefix(got[0].Error, "still ending") || !got[1].Ended || got[1].Error != "" {
		t.Errorf("%+v", got)
	}
	// What is in a directory that could not be read is not known to be over.
	seen.blind = true
	if got := StopListed(&seen, []string{over}, timeout); got[0].Ended || got[0].Error == "" {
		t.Errorf("blind: %+v", got)
	}
}
