package waiting

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What runs without a runtime has no heap. The compiler says what would need one. An append that grows is not meant: each has its room
// (appendInt and its callers). The control is what runs with a runtime, which does need one.
func TestNothingNeedsTheHeap(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	needs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "escapes to heap") && !strings.Contains(line, "append escapes") || strings.Contains(line, "moved to heap") {
			file, _, _ := strings.Cut(filepath.Base(line), ":")
			needs[file] += line
		}
	}
	if needs["start.go"] == "" {
		t.Errorf("control: nothing is said of start.go in\n%s", out)
	}
	for file, lines := range needs {
		if text, _ := os.ReadFile(file); strings.HasPrefix(string(text), "//go:build amd64") && file != "entered.go" {
			t.Errorf("this needs the heap:\n%s", lines)
		}
	}
}
