package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

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
	own := stage.Below(os.Getpid())
	for _, p := range own {
		if p.PPID == os.Getpid() {
			_ = p.Signal(unix.SIGTERM)
		}
	}
	for range 100 {
		if len(own) == 0 {
			break
		}
		reapOrphans()
		own = stage.Below(os.Getpid())
		for _, p := range own {
			_ = p.Signal(unix.SIGKILL)
		}
	}
	if len(own) > 0 {
		fmt.Fprintf(os.Stderr, "bench: %d processes could not be ended\n", len(own))
	}
	// Those are there only after a session that had to be killed whole.
	records, _ := filepath.Glob(filepath.Join(b.dir, "mcp-tether", "*.json"))
	for _, record := range records {
		stage.RemoveLeaf(strings.TrimSuffix(filepath.Base(record), ".json"))
	}
	said, _ := os.ReadFile(filepath.Join(b.dir, "stderr"))
	_, _ = os.Stderr.Write(said)
	_ = os.RemoveAll(b.dir)
	b.tidy()
}
