package proc

import "runtime/debug"

// PauseGC stops the collector's wake-ups, which come every two minutes otherwise. A session allocates hardly anything while
// it waits. If it does, the limit makes the collector run, in bytes of all that the runtime has: what works for long comes to
// hold that much. It must be far above what lives, for the collector runs all the time otherwise.
func PauseGC(limit int64) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(limit)
}
