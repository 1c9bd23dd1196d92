package proc

import (
	"runtime"
	"time"
)

// InTime calls look, which may never end, for example at a file system that does not answer. It reports whether look
// ended within the limit. If not, look goes on and holds a thread: what it writes must not be read.
func InTime(limit time.Duration, look func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		look()
	}()
	// A timer of package time would start the runtime's poller, which ends a process that can open nothing any more.
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); Sleep(time.Millisecond) {
		runtime.Gosched()
		select {
		case <-done:
			return true
		default:
		}
	}
	return false
}
