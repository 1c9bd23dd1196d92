package supervise

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/display"
	"mcp-tether/internal/teardown"
)

// tally is what a teardown has signalled, by pid: true stands for SIGKILL.
type tally struct {
	signalled map[int]bool
	// names are the command names of the first ones beside the server.
	names []string
}

// Bounds of a tally. A tree that forks while it is ended has no end.
const (
	maxTally = 10_000
	maxNames = 5
)

// add notes which processes were signalled.
func (t *tally) add(sent []teardown.Sent, server int) {
	if t.signalled == nil {
		t.signalled = map[int]bool{}
	}
	for _, x := range sent {
		killed, known := t.signalled[x.To.PID]
		if x.Err != nil || !known && len(t.signalled) == maxTally {
			continue
		}
		t.signalled[x.To.PID] = killed || x.Sig == unix.SIGKILL
		if name := display.Text(x.To.Comm); !known && x.To.PID != server && len(t.names) < maxNames && !slices.Contains(t.names, name) {
			t.names = append(t.names, name)
		}
	}
}

// count counts the processes that were ended, and those of them that took SIGKILL. What has survived was not ended.
func (t *tally) count(survivors []teardown.Survivor) (ended, killed int) {
	for _, s := range survivors {
		delete(t.signalled, s.PID)
	}
	for _, k := range t.signalled {
		if ended++; k {
			killed++
		}
	}
	return ended, killed
}

// words say in one line what was ended beside the server, and kept; "" if that is nothing.
func (t *tally) words(ended, killed, server int, kept string) string {
	if wasKilled, signalled := t.signalled[server]; signalled {
		if ended--; wasKilled {
			killed--
		}
	}
	switch {
	case ended == 0 && kept == "":
		return ""
	case ended == 0:
		return "mcp-tether: " + kept + "\n"
	case kept != "":
		kept = "; " + kept
	}
	processes, how := "processes", ""
	if ended == 1 {
		processes = "process"
	}
	if killed > 0 {
		how = fmt.Sprintf(", %d by SIGKILL", killed)
	}
	return fmt.Sprintf("mcp-tether: ended %d %s beside the server%s: %s%s\n", ended, processes, how, strings.Join(t.names, ", "), kept)
}
