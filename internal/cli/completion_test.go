package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mcp-tether/e2e/testkit"
)

// A name with blanks or with a star is one word for bash, and is expanded by nobody.
func TestBashCompletionOfNames(t *testing.T) {
	_, err := exec.LookPath("bash")
	testkit.Lacks(t, testkit.Tools, err != nil, "bash")
	dir := t.TempDir()
	for _, name := range []string{"a b", "a *", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WriteProgram(t, filepath.Join(dir, "mcp-tether"), []byte("#!/bin/sh\nprintf ':files\\na session\\tits name\\n'\n"))
	cmd := exec.Command("bash", "-c", bashCompletion+`
COMP_WORDS=(./mcp-tether wrap a) COMP_CWORD=2
_mcp_tether
printf '<%s>' "${COMPREPLY[@]}"`)
	cmd.Dir = dir
	out, err := cmd.Output()
	if got := string(out); err != nil || got != `<a b><a *><a\ session>` && got != `<a *><a b><a\ session>` {
		t.Errorf("%v: %s", err, got)
	}
}
