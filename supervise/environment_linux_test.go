package supervise

import (
	"slices"
	"testing"
)

// The runtime takes the first of two assignments, and the rest is as it was.
func TestSupervisorEnv(t *testing.T) {
	given := []string{"A=1", "", "GOMAXPROCS=8", "A=2", "no assignment"}
	got := supervisorEnv(slices.Clone(given))
	if got[0] != oneProcessor || !slices.Equal(got[1:], given) {
		t.Errorf("%q", got)
	}
}
