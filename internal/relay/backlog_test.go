package relay

import (
	"testing"

	"mcp-tether/internal/mcp"
)

// A cancellation leaves out one call, although another one has the same id.
func TestCancellationLeavesOutOneCall(t *testing.T) {
	var b backlog
	for range 2 {
		b.add([]byte(call), "7")
	}
	b.add([]byte(list), "2")
	if !b.cancel("7") || b.cancel("8") {
		t.Error("7 waits, and 8 does not")
	}
	if got := string(b.take(&mcp.Scanner{})); got != call+list {
		t.Errorf("%q are left", got)
	}
}
