package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"mcp-tether/e2e/stage"
)

// sleeper is a server that says it is there and then does nothing.
func sleeper() []string { return []string{"/bin/sh", "-c", "echo ready; exec sleep 1000000"} }

// startSleepers starts n sessions of a sleeper, and waits for each.
func (b *bench) startSleepers(s subject, n int) ([]*live, error) {
	var all []*live
	for range n {
		l, err := start(s.command(sleeper()...), pipes)
		if err == nil {
			all = append(all, l)
			_, err = l.firstByte()
		}
		if err != nil {
			endAll(all)
			return nil, err
		}
	}
	time.Sleep(3 * time.Second) // start-up work and its garbage are not what a session holds or does
	return all, nil
}

// endAll lets all go before it waits for any, so that their teardowns overlap.
func endAll(all []*live) {
	for _, l := range all {
		l.letGo()
		l.terminate()
	}
	for _, l := range all {
		_ = l.wait()
	}
}

// measureMemory adds up what the wrapper's processes hold while many sessions run at once. Pages of the binary are
// shared between them, and PSS counts each sharer's part.
func measureMemory(b *bench) (table, error) {
	t := table{
		Title:   fmt.Sprintf("Memory: the wrapper's own processes, %d sessions at once", b.sessions),
		Columns: []string{"sessions", "PSS mean MB"},
	}
	for _, s := range b.subjects {
		if s.missing {
			t.missing(s.name, "")
			continue
		}
		if err := b.weigh(&t, s); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (b *bench) weigh(t *table, s subject) error {
	all, err := b.startSleepers(s, b.sessions)
	if err != nil {
		return err
	}
	defer endAll(all)
	var pids []int
	for _, l := range all {
		pids = append(pids, wrappers(l)...)
	}
	sum, err := memoryOf(pids...)
	if err != nil {
		return err
	}
	t.add(s.name, "", float64(len(all)), sum/float64(len(all)))
	return nil
}

// wrappers lists the processes of a session that are not its sleeping server: from the one we started down.
func wrappers(l *live) []int {
	out := []int{l.pid}
	for _, p := range stage.Below(l.pid) {
		if p.Comm != "sleep" {
			out = append(out, p.PID)
		}
	}
	return out
}

// memoryOf is the PSS of processes together, in MB of 10^6 bytes.
func memoryOf(pids ...int) (sum float64, err error) {
	for _, pid := range pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return sum, fmt.Errorf("read memory of pid %d: %w", pid, err)
		}
		sum += number(raw, "Pss:") * 1024 / 1e6
	}
	return sum, nil
}

// number finds the line that starts with key and returns its first number, or zero.
func number(raw []byte, key string) float64 {
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
			return n
		}
	}
	return 0
}
