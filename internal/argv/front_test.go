package argv

import "testing"

func TestWantsFront(t *testing.T) {
	for _, c := range []struct {
		args                     []string
		hibernate, onCrash, lazy string
		want                     bool
	}{
		{[]string{"--", "x"}, "", "", "", false},
		{[]string{"--hibernate", "10m", "--", "x"}, "", "", "", true},
		{[]string{"--hibernate=0", "x"}, "10m", "", "", false},
		{[]string{"--on-crash", "end", "x"}, "", "restart", "", false},
		{[]string{"x", "--hibernate=10m"}, "", "", "", false},
		{[]string{"x"}, "10m", "", "", true},
		{[]string{"x"}, "", "restart", "", true},
		{[]string{"--help", "--hibernate=10m"}, "", "", "", false},
		{[]string{"--hibernate=soon", "x"}, "", "", "", false},
		{[]string{"--name", "--hibernate=10m", "x"}, "", "", "", false},
		{[]string{"--lazy", "x"}, "", "", "", true},
		{[]string{"--lazy=false", "x"}, "", "", "1", false},
		{[]string{"x"}, "", "", "true", true},
		{[]string{"--lazy", "--help"}, "", "", "", false},
		{[]string{"--stdout-guard", "--lazy=false", "x"}, "", "", "1", true},
		{[]string{"--keep-stderr=true", "x"}, "", "", "", true},
		{[]string{"--restart-on", "dist", "x"}, "", "", "", true},
		{[]string{"--restart-on=", "x"}, "", "", "", false},
	} {
		env := func(name string) string {
			return map[string]string{"MCP_TETHER_HIBERNATE": c.hibernate, "MCP_TETHER_ON_CRASH": c.onCrash, "MCP_TETHER_LAZY": c.lazy}[name]
		}
		if got, _ := Wants(c.args, env); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
