package stage

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// A play that goes wrong is cleaned up after, and all of its errors are told.
func TestPlayTellsEveryError(t *testing.T) {
	var done []string
	var dir string
	err := Play(func(a *Alone) {
		dir = a.TempDir()
		a.Cleanup(func() { done = append(done, "second") })
		a.Cleanup(func() {
			done = append(done, "first")
			a.Fatalf("in the cleanup")
		})
		a.Errorf("small")
		a.Fatalf("large")
		done = append(done, "never")
	})
	if err == nil || strings.Join(strings.Split(err.Error(), "\n"), ",") != "small,large,in the cleanup" {
		t.Errorf("%v", err)
	}
	if !slices.Equal(done, []string{"first", "second"}) {
		t.Errorf("%v", done)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
	if err := Play(func(*Alone) {}); err != nil {
		t.Errorf("nothing went wrong, and yet: %v", err)
	}
}
