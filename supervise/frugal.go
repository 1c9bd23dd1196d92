package supervise

import (
	"math"
	"runtime/debug"
	"strings"
)

// A supervisor sleeps nearly all of its life, and there are as many as there are sessions: it runs with one processor of
// the Go scheduler, which saves it two threads and a tenth of its memory. The setting is read from the environment
// before main, so the anchor gives it, and the server gets the original back.

const oneProcessor = "GOMAXPROCS=1"

// frugal is the supervisor's environment, and what the server's must have in its place.
func frugal(env []string) (out, restore []string) {
	out = make([]string, 0, len(env)+1)
	for _, e := range env {
		if strings.HasPrefix(e, "GOMAXPROCS=") {
			restore = append(restore, e)
			continue
		}
		out = append(out, e)
	}
	return append(out, oneProcessor), restore
}

// original undoes frugal.
func original(env, restore []string) []string {
	out := make([]string, 0, len(env)+2)
	for _, e := range env {
		if e != oneProcessor {
			out = append(out, e)
		}
	}
	return append(out, restore...)
}

// rest stops the collector's regular wake-ups, every two minutes without it. A session allocates hardly anything while
// it waits; the limit has the collector run when it does.
func rest() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
}

// attend undoes rest for a supervisor that has work: a busy engine's streams and bodies may need more than the limit.
func attend() {
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(math.MaxInt64)
}

// memoryLimit is far above what a session needs, in bytes.
const memoryLimit = 32 << 20
