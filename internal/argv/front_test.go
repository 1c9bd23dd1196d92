package argv

import "testing"

func TestWantsFront(t *testing.T) {
	for _, c := range []struct {
		args               []string
		hibernate, onCrash string
		want               bool
	}{
		{[]string{"--", "x"}, "", "", false},
		{[]string{"--hibernate", "10m", "--", "x"}, "", "", true},
		{[]string{"-hibernate=1s", "x"}, "", "", true},
		{[]string{"--hibernate=0", "x"}, "10m", "", false},
		{[]string{"--hibernate=0", "--on-crash=restart", "x"}, "", "", true},
		{[]string{"--on-crash", "end", "x"}, "", "restart", false},
		{[]string{"x", "--hibernate=10m"}, "", "", false},
		{[]string{"--", "--hibernate=10m"}, "", "", false},
		{[]string{"x"}, "10m", "", true},
		{[]string{"x"}, "", "restart", true},
		{[]string{"--help", "--hibernate=10m"}, "", "", false},
		{[]string{"--hibernate=soon", "x"}, "", "", false},
		{[]string{"--hibernate=-1s", "x"}, "", "", false},
		{[]string{"--name", "--hibernate=10m", "x"}, "", "", false},
	} {
		if got := WantsFront(c.args, c.hibernate, c.onCrash); got != c.want {
			t.Errorf("%q, %q, %q: %t", c.args, c.hibernate, c.onCrash, got)
		}
	}
}
