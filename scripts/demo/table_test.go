package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// With the largest pids, slow deaths and a long log, all of it fits a terminal, and no word of the log is lost.
func TestRunFitsTerminal(t *testing.T) {
	const pid = 4194304
	r := run{gateway: pid}
	for _, role := range []string{"server", "worker", "helper", "mcp-tether"} {
		r.members = append(r.members, member{name: role, pid: pid, dead: true, after: tetheredPatience})
	}
	log := strings.Repeat("2026-11-26 12:40:03 INF session ended cause=gateway-gone session=0e13bab29cd23cdf\n", 3)
	r.log = log
	var out bytes.Buffer
	printRun(&out, r)
	printSummary(&out, r, run{members: []member{{dead: true, after: time.Millisecond}}})
	printWeights(&out, []weight{{kind: "mcp-tether run --hibernate 1s", processes: 3 * many, memory: 1 << 30}})
	for line := range strings.Lines(out.String()) {
		if len(line) > columns+1 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if all := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(all, strings.Join(strings.Fields(log), " ")) {
		t.Errorf("the log is not in\n%s", out.String())
	}
}
