package session

import "testing"

// The first cause counts, with the exceptions that are listed here: for all pairs of causes.
func TestCauseUnless(t *testing.T) {
	all := []Cause{
		NoCause, CauseServer, CauseStdin, CauseStdout, CauseGateway, CauseAnchor, CauseSupervisor, CauseSignal, CauseStart, CauseTooLong,
		CauseChanged,
	}
	for _, c := range all {
		for _, other := range all {
			for _, mayGoOn := range []bool{false, true} {
				want := c
				switch {
				case c == NoCause, c == CauseStdin && mayGoOn && other != CauseServer:
					want = other
				case c == CauseStdout && other == CauseGateway, c == CauseStdout && other == CauseAnchor:
					want = other
				}
				if got := c.Unless(other, mayGoOn); got != want {
					t.Errorf("%q, then %q (may go on: %v): %q, want %q", c, other, mayGoOn, got, want)
				}
			}
		}
	}
}
