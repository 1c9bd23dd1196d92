package keeper

import "time"

// At most maxWarnings are logged in each warnPeriod: a client can cause as many as it likes.
const (
	maxWarnings = 20
	warnPeriod  = time.Minute
)

// warnings are those that were logged, and left out.
type warnings struct {
	said  string    // the last one
	since time.Time // of the first of this period
	count int       // in it
	// suppressed is how many were left out.
	suppressed int
}

// warn logs an error, but not the same one twice in a row, and not too many. tellSuppressed logs later how many were left
// out.
func (k *Keeper) warn(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.warned.said == err.Error() {
		return
	}
	k.warned.said = err.Error()
	if now := time.Now(); now.Sub(k.warned.since) > warnPeriod {
		k.tellSuppressed()
		k.warned.since, k.warned.count = now, 0
	}
	if k.warned.count++; k.warned.count > maxWarnings {
		k.warned.suppressed++
		return
	}
	k.o.Log.Warn().Err(err).Msg("container engine")
}

// tellSuppressed logs how many warnings were left out. The caller holds mu.
func (k *Keeper) tellSuppressed() {
	if k.warned.suppressed > 0 {
		k.o.Log.Warn().Int("count", k.warned.suppressed).Msg("more warnings about the container engine were left out")
	}
	k.warned.suppressed = 0
}
