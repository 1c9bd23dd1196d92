package supervise

import (
	"testing"
	"time"
)

// A duration that no sum can hold is refused, like one below zero.
func TestValidateDurations(t *testing.T) {
	for d, valid := range map[time.Duration]bool{0: true, longestDuration: true, longestDuration + 1: false, 500_000 * time.Hour: false, -1: false} {
		for _, set := range []func(*Options){
			func(o *Options) { o.EOFGrace = d }, func(o *Options) { o.TermGrace = d }, func(o *Options) { o.KillTimeout = d },
		} {
			o := Defaults()
			set(&o)
			if err := o.Validate(); (err == nil) != valid {
				t.Errorf("%v: %v", d, err)
			}
			if end := o.LongestEnd() + margin; valid && end < 0 {
				t.Errorf("%v: the longest end is %v", d, end)
			}
		}
	}
}
