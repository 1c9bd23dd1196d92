package clients

import (
	"strings"
	"testing"
)

func TestRunsContainer(t *testing.T) {
	for line, want := range map[string]bool{
		"docker run -i --rm mcp/fetch": true, "/usr/bin/podman -c x container run x": true, "docker ps": false, "docker": false,
		"dockerd run i": false, "npx docker run i": false, "": false,
	} {
		if got := RunsContainer(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
