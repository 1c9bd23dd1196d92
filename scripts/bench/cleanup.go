package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
)

// becomeSubreaper makes every orphan below us our child, so that "nothing is left" can be known and not just hoped for.
func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

// reapOrphans waits, for a bounded time, until no child is left.
func reapOrphans() bool {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.ECHILD) {
			return true
		}
		if pid <= 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return false
}

// cleanUp leaves nothing of this run: a wrapper is asked first, since it knows best what is its own.
func (b *bench) cleanUp() {
	b.starting.Lock()
	b.stopping = true
	b.starting.Unlock()
	own, err := b.below(os.Getpid())
	if err == nil && len(own) > 0 {
		for _, p := range own {
			if p.PPID == os.Getpid() {
				_ = unix.Kill(p.PID, unix.SIGTERM)
			}
		}
		reapOrphans()
	}
	for range 100 {
		own, err = b.below(os.Getpid())
		if err != nil || len(own) == 0 {
			break
		}
		for _, p := range own {
			_ = b.procs.Signal(p.ID, unix.SIGKILL)
		}
		reapOrphans()
	}
	if len(own) > 0 {
		fmt.Fprintf(os.Stderr, "bench: %d processes could not be ended\n", len(own))
	}
	b.removeLeaves()
	_ = os.RemoveAll(b.dir)
}

// removeLeaves removes the cgroups of sessions whose record is still in our private runtime directory. They are there
// only after a session that had to be killed whole. rmdir refuses a cgroup with processes in it.
func (b *bench) removeLeaves() {
	records, _ := filepath.Glob(filepath.Join(b.dir, "mcp-tether", "*.json"))
	for _, record := range records {
		leaf := cgroup.Prefix + strings.TrimSuffix(filepath.Base(record), ".json")
		for _, own := range ownCgroups() {
			_ = os.Remove(filepath.Join(own, leaf))
		}
	}
}

// ownCgroups are where this program's own cgroup of v2 may be.
func ownCgroups() (dirs []string) {
	raw, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(raw)) {
		if own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			dirs = append(dirs, filepath.Join("/sys/fs/cgroup", own), filepath.Join("/sys/fs/cgroup/unified", own))
		}
	}
	return dirs
}
