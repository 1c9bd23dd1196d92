package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"mcp-tether/e2e/stage"
)

// many is how many sessions are weighed at once.
const many = 100

// A weight is what many sessions of one kind hold.
type weight struct {
	kind      string
	processes int
	// PSS, in kB: what several processes share is counted once.
	memory int
}

// weigh starts many sessions below one gateway, waits until each has so many processes, and adds up what these hold.
func weigh(cast stage.Programs, kind string, each int, wrapper ...string) (w weight, err error) {
	w.kind = kind
	err = stage.Play(func(t *stage.Alone) {
		g := stage.Start(t, cast, stage.World{})
		defer g.Kill()
		head := []string{"stderr=" + filepath.Join(g.Dir, "stderr"), "env=XDG_RUNTIME_DIR=" + g.Dir, "--"}
		server := []string{cast.Fixture, "mcp", g.Dir, "-", "0", "plain"}
		for i := range many {
			name := strconv.Itoa(i)
			g.Call(append(append(append([]string{"spawn", name}, head...), wrapper...), server...)...)
			g.Call("write", name, greeting)
			g.Call("read", name)
			g.Call("write", name, greeted)
		}
		var all []stage.Proc
		stage.Until(t, fmt.Sprintf("%s: %d processes", kind, many*each), func() bool {
			all = stage.Below(g.PID)
			return len(all) == many*each
		})
		for _, p := range all {
			w.memory += pss(t, p.PID)
		}
		w.processes = len(all)
		g.Signal(syscall.SIGKILL)
		if left := stage.Outlasting(tetheredPatience, all...); len(left) > 0 {
			t.Errorf("%s: %d processes outlive the gateway", kind, len(left))
		}
	})
	return w, err
}

// The handshake, after which a server may sleep.
const (
	greeting = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}}` + "\n"
	greeted  = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
)

// pss is what a process holds, in kB.
func pss(t stage.T, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatalf("weigh a process: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), "\nPss:")
	var kB int
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatalf("weigh a process: %v in %q", err, text)
	}
	return kB
}
