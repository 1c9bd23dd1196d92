package proc

import (
	"slices"
	"testing"
)

func TestReaddress(t *testing.T) {
	t.Parallel()
	ours := []int{41, 42}
	for name, c := range map[string]struct {
		env, want []string
		at        []int
	}{
		"nothing":         {[]string{"A=1", "PID=42"}, []string{"A=1", "PID=42"}, nil},
		"both":            {[]string{"LISTEN_PID=42", "A=1", "WATCHDOG_PID=41"}, []string{"LISTEN_PID=", "A=1", "WATCHDOG_PID="}, []int{0, 2}},
		"another":         {[]string{"LISTEN_PID=4", "LISTEN_PIDFDID=7"}, []string{"LISTEN_PID=4", "LISTEN_PIDFDID=7"}, nil},
		"only one":        {[]string{"LISTEN_PID=4", "LISTEN_PIDFDID=7", "WATCHDOG_PID=42"}, []string{"LISTEN_PID=4", "LISTEN_PIDFDID=7", "WATCHDOG_PID="}, []int{2}},
		"by its pidfd":    {[]string{"LISTEN_PIDFDID=7", "LISTEN_PID=42"}, []string{"LISTEN_PID="}, []int{0}},
		"twice":           {[]string{"LISTEN_PID=42", "LISTEN_PID=4"}, []string{"LISTEN_PID=", "LISTEN_PID=4"}, []int{0}},
		"not a number":    {[]string{"LISTEN_PID=", "WATCHDOG_PID=42x", "LISTEN_PID"}, []string{"LISTEN_PID=", "WATCHDOG_PID=42x", "LISTEN_PID"}, nil},
		"longer or other": {[]string{"LISTEN_PIDS=42", "MY_LISTEN_PID=42"}, []string{"LISTEN_PIDS=42", "MY_LISTEN_PID=42"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, at := readdress(c.env, ours)
			if !slices.Equal(got, c.want) || !slices.Equal(at, c.at) {
				t.Errorf("%q at %v, want %q at %v", got, at, c.want, c.at)
			}
		})
	}
}
