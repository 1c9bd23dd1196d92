package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mcp-tether/internal/testkit"
)

// An engine that ended before its start time was read is not there, and what it had is removed.
func TestEngineThatEndedAtOnce(t *testing.T) {
	_, err := exec.LookPath("bash")
	testkit.Need(t, err == nil, "bash")
	dir := filepath.Join(t.TempDir(), "engine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// No process has such a number (PID_MAX_LIMIT).
	for name, text := range map[string]string{"pid": "99999999 \n", "cgroup": "engine-of-no-test\n", "log": "unshare failed\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("bash", "../engine", "stop", dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}
