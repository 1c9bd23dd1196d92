package proc

import "time"

// Shorter is the shorter of two waits for Poll. A negative one is for ever; b is not negative.
func Shorter(a, b time.Duration) time.Duration {
	if a < 0 || b < a {
		return b
	}
	return a
}

// Earliest is the first of the times that are set, zero when none is.
func Earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// IsDue reports whether a time that is set has come.
func IsDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }
