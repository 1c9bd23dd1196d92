package kernel

import "time"

// InTime makes a look that may never end, such as one at a file system that does not answer. It reports whether the
// look ended within the limit. One that did not goes on, and holds a thread: what it writes must not be read.
func InTime(limit time.Duration, look func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		look()
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}
