package supervise

import (
	"slices"
	"testing"
)

// What the supervisor is given for itself, the server does not see.
func TestOriginalUndoesFrugal(t *testing.T) {
	for _, env := range [][]string{
		nil, {"A=b"}, {"GOMAXPROCS=4"}, {"GOMAXPROCS=1"}, {"A=b", "GOMAXPROCS=1", "C="}, {"GOMAXPROCS="}, {"GOMAXPROCS=2", "GOMAXPROCS=1"},
		{"XGOMAXPROCS=1", "GOMAXPROCSX=1", "GOMAXPROCS"}, {oneProcessor},
	} {
		given, restore := supervisorEnv(slices.Clone(env))
		if !slices.Contains(given, oneProcessor) {
			t.Errorf("%q: the supervisor gets %q", env, given)
		}
		got, want := undoSupervisorEnv(given, restore), slices.Clone(env)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q became %q", env, got)
		}
	}
}
