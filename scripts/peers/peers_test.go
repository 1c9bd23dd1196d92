package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// tried are cases of each kind: a gateway that dies, a helper that detaches itself, a call in flight.
var tried = []string{"gateway-killed", "detached", "term-in-flight"}

// Bare fails in each case, tini where a helper detaches itself, and mcp-tether nowhere.
func TestTableOfPeers(t *testing.T) {
	testkit.Long(t)
	_, err := exec.LookPath("tini")
	testkit.Lacks(t, testkit.Tools, err != nil, "tini")
	t.Chdir("../..") // as make does
	cast, tidy, err := stage.Cast("server", "")
	if err != nil {
		t.Fatal(err)
	}
	defer tidy()
	program := filepath.Join(t.TempDir(), "peers")
	if said, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./scripts/peers").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	out, err := exec.Command(program, "-only", "tini", "-cases", strings.Join(tried, ","), cast.Tether).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, row := range []string{"| bare | worker | helper | worker |", "| tini | - | helper | - |", "| mcp-tether | - | - | - |"} {
		if !strings.Contains(string(out), row+"\n") {
			t.Errorf("no row %s in\n%s", row, out)
		}
	}
	// A wrapper that kills at once loses the answer: it could be lost elsewhere, too.
	hasty := `exec 3<&0; "$@" <&3 & trap "kill -9 $!" TERM; wait`
	out, err = exec.Command(program, playArg, cast.Fixture, "term-in-flight", "", "sh", "-c", hasty, "hasty").Output()
	if err != nil || !strings.HasPrefix(string(out), "answer lost") {
		t.Errorf("under a wrapper that kills: %q, %v", out, err)
	}
}

// Where bare passes or mcp-tether fails, the program does.
func TestJudge(t *testing.T) {
	cases := allCases()[:1]
	for _, c := range []struct {
		peer, cell string
		good       bool
	}{
		{bare, "worker", true}, {bare, "-", false}, {bare, broken, false}, {bare, notTried, true},
		{ours, "-", true}, {ours, "worker", false}, {ours, "answer lost", false}, {"tini", "worker", true}, {"tini", "-", true},
	} {
		if err := judge(peer{name: c.peer}, cases, []string{c.cell}); (err == nil) != c.good {
			t.Errorf("%s with %q: %v", c.peer, c.cell, err)
		}
	}
}
