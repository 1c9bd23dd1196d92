package supervise

import (
	"slices"
	"testing"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/testkit"
)

// The end of the server and that of a reader of standard output may be seen in one turn of the loop. The first closes
// the watch. The second must then not wait for descriptor 0 in its place: that is /dev/null by then, and always ready.
func TestReaderEndsWithTheServer(t *testing.T) {
	r, w := testkit.Pipe(t)
	defer r.Close()
	defer w.Close()
	for _, open := range []bool{true, false} {
		s := &Session{}
		watch, err := proc.WatchReaders(int(w.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		s.stdout.watch = watch
		if !open {
			s.stdout.close(&s.polled)
		}
		s.onStdoutClosed()
		if waits := slices.Contains(s.polled.sources, stdoutReader); waits != open {
			t.Errorf("watch open: %t, waited for: %t", open, waits)
		}
		s.stdout.close(&s.polled)
	}
}
