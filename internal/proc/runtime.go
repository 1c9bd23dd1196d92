package proc

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// PauseGC stops the collector's wake-ups, which come every two minutes otherwise. A session allocates hardly anything while
// it waits. If it does, the limit makes the collector run, in bytes of all that the runtime has: what works for long comes to
// hold that much. It must be far above what lives, for the collector runs all the time otherwise.
func PauseGC(limit int64) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(limit)
}

// StartThreads has the Go runtime start n threads, and leaves them idle. At RLIMIT_NPROC or pids.max the runtime aborts
// when it needs another thread and cannot start it. It keeps every thread that it has started, and uses an idle one
// first. So a process starts the threads that it may need before there is a server that could use up the limit.
func StartThreads(n int) {
	var up, done sync.WaitGroup
	release := make(chan struct{})
	up.Add(n)
	for range n {
		done.Go(func() {
			// Each has a thread to itself until all are there.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			<-release
		})
	}
	up.Wait()
	close(release)
	done.Wait()
}

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
