package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// An engine is stopped when the process that has started it is killed: no deferred function stops it then.
func TestEngineEndsWithItsOwner(t *testing.T) {
	_, err := exec.LookPath("bash")
	testkit.Need(t, err == nil, "bash")
	dir := filepath.Join(t.TempDir(), "engine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	engine, owner := exec.Command("sleep", "1000"), exec.Command("sleep", "1000")
	for _, cmd := range []*exec.Cmd{engine, owner} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	}
	line := fmt.Sprintf("%d %s\n", engine.Process.Pid, statFields(t, engine.Process.Pid)[19])
	if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte("engine-of-no-test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	watch := exec.CommandContext(ctx, "bash", "../engine", "watch", dir, "docker", fmt.Sprint(owner.Process.Pid))
	watch.Stdin = strings.NewReader(line)
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Process.Kill() // before or after the first look
	_ = owner.Wait()
	if err := watch.Wait(); err != nil {
		t.Errorf("watch: %v", err)
	}
	if state := statFields(t, engine.Process.Pid)[0]; state != "Z" {
		t.Errorf("the engine is in state %s", state)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}

// statFields are what /proc/PID/stat says of a process after its name: the first is the state, the twentieth the start time.
func statFields(t *testing.T, pid int) []string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(after)
}
