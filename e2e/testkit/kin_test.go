package testkit

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var _ = Role("stays", func() {
	Report("stays")
	for {
		_ = unix.Pause()
	}
})

// judged is a test that has failed, and hears nothing of it.
type judged struct {
	testing.TB
	errors int
}

func (j *judged) Errorf(string, ...any) { j.errors++ }
func (j *judged) Cleanup(func())        {}

// What does not end when it should fails its test, and does not hold up the others.
func TestFamilyThatStaysIsKilled(t *testing.T) {
	j := &judged{TB: t}
	k := Start(j, "stays", 1, nil)
	k.endWithin(time.Millisecond)
	if err := unix.Kill(k.PID, 0); err != unix.ESRCH || j.errors != 1 {
		t.Errorf("%v, %d errors", err, j.errors)
	}
}
