package stage

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// T is what the stage needs of whoever plays on it: a *testing.T, a script, or a program (Alone).
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf does not return.
	Fatalf(format string, args ...any)
	Failed() bool
	// Cleanup has a function called at the end, the last one first.
	Cleanup(f func())
	// TempDir is a new directory that is removed at the end.
	TempDir() string
}

// Alone is the T of a program that is no test. It collects what goes wrong.
type Alone struct {
	errs []error
	tidy []func()
}

// Play calls play with a T, cleans up after it, and returns all that went wrong.
func Play(play func(t *Alone)) error {
	a := &Alone{}
	a.do(func() { play(a) })
	a.do(a.clean)
	return errors.Join(a.errs...)
}

// do calls a function on a goroutine of its own, which a fatal error ends.
func (a *Alone) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// clean calls what was registered, the last one first, even if one of them is fatal.
func (a *Alone) clean() {
	for len(a.tidy) > 0 {
		last := a.tidy[len(a.tidy)-1]
		a.tidy = a.tidy[:len(a.tidy)-1]
		a.do(last)
	}
}

// Helper does nothing.
func (a *Alone) Helper() {}

// Logf writes to standard error.
func (a *Alone) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Errorf notes an error, and goes on.
func (a *Alone) Errorf(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, args...)) //nolint:err113 // it is told, not decided on
}

// Fatalf notes an error, and ends the play.
func (a *Alone) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

// Failed tells whether there was an error.
func (a *Alone) Failed() bool { return len(a.errs) > 0 }

// Cleanup has a function called when the play is over.
func (a *Alone) Cleanup(f func()) { a.tidy = append(a.tidy, f) }

// TempDir is removed when the play is over.
func (a *Alone) TempDir() string {
	dir, err := os.MkdirTemp("", "mcp-tether-stage-")
	if err != nil {
		a.Fatalf("make a directory: %v", err)
	}
	a.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Patience bounds every wait. It is no measure of speed: a test that waits as long has failed. It is enough for a
// command of an engine, or for a tree of 500 processes, beside neighbours that hold every processor.
const Patience = 2 * time.Minute
