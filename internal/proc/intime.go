package proc

import "time"

// InTime calls look, which may never end, for example at a file system that does not answer. It reports whether look
// ended within the limit. If not, look goes on and holds a thread: what it writes must not be read.
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
