//go:build amd64 || arm64

package waiting

import "testing"

// A variable is dropped that begins with one of the texts.
func TestDrops(t *testing.T) {
	p := &Page{}
	check := func(variable string, want bool) {
		t.Helper()
		if got := p.drops(variable); got != want {
			t.Errorf("%q is dropped: %t", variable, got)
		}
	}
	check("A=1", false)
	check("", false)
	join(p.drop[:], []string{"A=", "MCP_TETHER_ID="})
	for variable, want := range map[string]bool{
		"A=1": true, "A=": true, "MCP_TETHER_ID=x": true, "A": false, "AB=1": false, "MCP_TETHER_ID": false, "MCP_TETHER_": false, "": false, "B=A=": false,
	} {
		check(variable, want)
	}
}
