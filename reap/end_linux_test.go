package reap

import (
	"os"
	"testing"

	"mcp-tether/proc"
	"mcp-tether/teardown"
)

// Nothing that lives is reported as ended, even if package teardown has forgotten it. A client of a container engine
// may leave its container behind.
func TestConcludeIsNoGuess(t *testing.T) {
	var r proc.Reader
	self, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dead := proc.ID{PID: self.PID, Start: self.Start - 1}
	for name, c := range map[string]struct {
		f    Finding
		want string
	}{
		"dead":            {Finding{Class: classSevered, Members: []proc.ID{dead}}, resultEnded},
		"alive":           {Finding{Class: classSevered, Members: []proc.ID{dead, self.ID}}, resultSurvived},
		"a client":        {Finding{Class: classSevered, Members: []proc.ID{dead}, boxed: "mcp/fetch"}, resultSurvived},
		"a session's own": {Finding{Class: classRecord, Members: []proc.ID{dead}, boxed: "mcp/fetch"}, resultEnded},
	} {
		c.f.conclude(&teardown.Group{})
		if c.f.Result != c.want || c.f.over() != (len(c.f.Survivors) == 0) {
			t.Errorf("%s: %s, %v", name, c.f.Result, c.f.Survivors)
		}
	}
}
