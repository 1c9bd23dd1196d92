package proc

import (
	"slices"
	"testing"
)

// The runtime takes the first of two assignments, and the rest is as it was.
func TestOneProcessor(t *testing.T) {
	given := []string{"A=1", "", "GOMAXPROCS=8", "A=2", "no assignment"}
	got := WithOneProcessor(slices.Clone(given))
	if got[0] != oneProcessor || !slices.Equal(got[1:], given) {
		t.Errorf("%q", got)
	}
	if again := WithoutOneProcessor(got); !slices.Equal(again, given) {
		t.Errorf("undone: %q", again)
	}
	if same := WithoutOneProcessor(given); !slices.Equal(same, given) {
		t.Errorf("nothing to undo: %q", same)
	}
}
