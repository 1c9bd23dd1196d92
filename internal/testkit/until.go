package testkit

import (
	"testing"
	"time"
)

// lookAgain is the time between two looks at what announces no change. It is short compared with what is waited for,
// and leaves the processor to that. After a slow look, through all of /proc for instance, the time is longer: ten times
// the look, and lookSeldom at most.
const (
	lookAgain  = 2 * time.Millisecond
	lookSeldom = 20 * time.Millisecond
)

// Until looks until something is true, and fails the test when Patience is at an end. It is for what can only be looked
// at, such as the process table. What announces its own change is waited for instead (a pipe, a lock, a pidfd).
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); ; {
		began := time.Now()
		if is() {
			return
		}
		now := time.Now()
		if now.After(deadline) {
			t.Fatalf("not in %v: %s", Patience, what)
		}
		time.Sleep(min(max(10*now.Sub(began), lookAgain), lookSeldom))
	}
}
