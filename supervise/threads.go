package supervise

import "mcp-tether/internal/proc"

// How many threads are kept in reserve, beside those of every Go program. With one processor of the scheduler one
// thread runs at a time. Others are in system calls, wait for the network, or are about to rest. The first number is
// for a session that only waits. The scheduler hands its processor to an idle thread when a system call takes long. On
// a busy machine the previous thread may not be idle yet. The other number is for what works beside the loop: the
// connections of an engine.
const (
	reserveForWaiting = 1
	reserveForEngine  = 6
)

// reserve prepares for the work that this session may have. It is called before the server is started.
func (t *tree) reserve() {
	n := reserveForWaiting
	if t.engine != nil {
		n += reserveForEngine
	}
	proc.StartThreads(n)
}
