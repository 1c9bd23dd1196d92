package evidence

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mcp-tether/internal/proc"
)

// A process that may not be looked at hides nothing of the others. To a plain user the first process is one.
func TestHoldingsBesideAnUnreadableOne(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	cmd.Stdout = file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	file.Close()
	found, err := HoldingsOf([]proc.Stat{{ID: proc.ID{PID: 1}}, {ID: proc.ID{PID: cmd.Process.Pid}}})
	if found["write "+name] == "" || err == nil && os.Getuid() != 0 {
		t.Errorf("%v, %v", found, err)
	}
}
