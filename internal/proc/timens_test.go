package proc

import "testing"

func TestParseBootShift(t *testing.T) {
	for offsets, want := range map[string]int64{
		"": 0,
		"monotonic           0         0\nboottime            0         0\n": 0,
		"monotonic      100000         0\nboottime       100000         0\n": 10_000_000,
		"monotonic           0         0\nboottime          -10 500000000\n": -950,
		"boottime 1 999999999\n": 199,
	} {
		if got, err := parseBootShift(offsets); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", offsets, got, err, want)
		}
	}
	for _, odd := range []string{"boottime x 0\n", "boottime 0 x\n"} {
		if got, err := parseBootShift(odd); err == nil {
			t.Errorf("%q: %d", odd, got)
		}
	}
}
