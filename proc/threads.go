package proc

import (
	"runtime"
	"sync"
)

// StartThreads has the Go runtime start n threads, and leaves them idle. At RLIMIT_NPROC or pids.max the runtime aborts when
// it wants another thread and cannot have it. It keeps a thread that was once started, and takes it before it starts another.
// So a process gets what it may want later before there is a server that could take the last one.
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
