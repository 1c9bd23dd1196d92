package e2e

import (
	"testing"

	"mcp-tether/e2e/stage"
)

// Negative controls: without the wrapper these trees outlive their gateway. If one of them fails, the tests of the
// wrapper beside it prove nothing.
func TestBareTreeOutlivesGateway(t *testing.T) {
	t.Parallel()
	for name, child := range map[string]string{
		"setsid":                 "setsid",
		"double fork":            "daemon",
		"closed fds":             "setsid,closefds,clearenv,chdir",
		"daemon with closed fds": "daemon,closefds,clearenv,chdir",
		"forking family":         "setsid,family=8",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storm(t, child)
			s := begin(t, setup{Bare: true}, "serve", child)
			s.gw.Kill()
			stage.AwaitExit(t, s.Server)
			if !s.Alive() {
				t.Error("nothing is left of the bare tree")
			}
			s.EndAll()
		})
	}
}
