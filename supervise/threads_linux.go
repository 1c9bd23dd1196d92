package supervise

import (
	"runtime"
	"sync"
)

// At RLIMIT_NPROC or pids.max the Go runtime aborts when it wants another thread and cannot have it. So a session starts
// none after its server. One that only waits needs none. What works beside the loop (an engine's connections, the
// collector when a server has been put to sleep) gets its threads before the server starts: the runtime keeps a thread
// that was once started, and uses it before it starts another.

// How many threads are kept in reserve. With one processor of the scheduler one thread runs at a time; others are in
// system calls or wait for the network, or are about to be woken.
const (
	reserveForSleep  = 2
	reserveForEngine = 6
)

// reserve prepares for the work that this session may have. It is called before the server is started, and acts once.
func (s *Session) reserve() {
	n := 0
	if s.hib != nil {
		n += reserveForSleep
	}
	if s.tree.engine != nil {
		n += reserveForEngine
	}
	if n > s.reserved {
		startThreads(n - s.reserved)
		s.reserved = n
	}
}

// startThreads has the runtime start n threads, and leaves them idle.
func startThreads(n int) {
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
