package relay

import (
	"bytes"
	"fmt"

	"mcp-tether/internal/display"
)

const (
	// tailLines is how many lines a Tail gives, and tailBytes how much of each; so much of the stream is kept.
	tailLines = 20
	tailBytes = 500
)

// Tail keeps the end of what a server writes to standard error. The zero value is empty.
type Tail struct{ kept []byte }

// Add takes the next bytes of the stream.
func (t *Tail) Add(b []byte) {
	const most = tailLines * tailBytes
	t.kept = append(t.kept, b[max(0, len(b)-most):]...)
	if over := len(t.kept) - most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

// Lines are the last 20 lines at most, the oldest first, and of each at most 500 bytes. Lines of white space and those of our own
// log are left out.
func (t *Tail) Lines() (lines []string) {
	for _, line := range bytes.Split(t.kept, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !display.IsEvent(line) {
			lines = append(lines, string(line[:min(len(line), tailBytes)]))
		}
	}
	return lines[max(0, len(lines)-tailLines):]
}

// Said is the end of a sentence about a server that has ended: what it said last, "" for nothing.
func (t *Tail) Said() string {
	lines := t.Lines()
	if len(lines) == 0 {
		return ""
	}
	return fmt.Sprintf("; last line of its standard error: %q", lines[len(lines)-1])
}
