package proc

import (
	"math"
	"runtime/debug"
)

// PauseGC stops the collector's wake-ups, which come every two minutes otherwise. A session allocates hardly anything while
// it waits. If it does, the memory limit makes the collector run.
func PauseGC() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
}

// ResumeGC undoes PauseGC for a process that has work: a busy engine's streams and bodies may need more than the limit.
func ResumeGC() {
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(math.MaxInt64)
}

// memoryLimit is far above what a session needs, in bytes.
const memoryLimit = 32 << 20
