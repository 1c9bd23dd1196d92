package testkit

import "testing"

// Excuse skips a test that can show nothing here, whatever is installed: for instance a test about permissions, where
// they do not bind the user. It does so even where skips are forbidden; there the list of skips must name the test
// (scripts/test).
func Excuse(t testing.TB, moot bool, why string) {
	t.Helper()
	if moot {
		skipped.Store(true)
		t.Skip(why)
	}
}
