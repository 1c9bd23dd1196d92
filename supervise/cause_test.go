package supervise

import "testing"

// The first cause counts, with the exceptions that are listed here: for all pairs of causes.
func TestCauseUnless(t *testing.T) {
	for c := noCause; c < causes; c++ {
		for other := noCause; other < causes; other++ {
			for _, mayGoOn := range []bool{false, true} {
				want := c
				switch {
				case c == noCause, c == causeStdin && mayGoOn && other != causeServer:
					want = other
				case c == causeStdout && other == causeGateway, c == causeStdout && other == causeAnchor:
					want = other
				}
				if got := c.unless(other, mayGoOn); got != want {
					t.Errorf("%q, then %q (may go on: %v): %q, want %q", c, other, mayGoOn, got, want)
				}
			}
		}
	}
}
