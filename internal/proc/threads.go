package proc

import (
	"runtime"
	"sync"
)

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
