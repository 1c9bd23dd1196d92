package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mcp-tether/internal/proc"
)

// below lists the living descendants of a process, parents first.
func (b *bench) below(root int) ([]proc.Stat, error) {
	all, err := b.procs.Descendants(root)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return slices.DeleteFunc(all, proc.Stat.Dead), nil
}

// wrappers lists the processes of a session that are not its sleeping server: from the one we started down.
func (b *bench) wrappers(l *live) ([]int, error) {
	rest, err := b.below(l.pid)
	out := []int{l.pid}
	for _, p := range rest {
		if p.Comm != "sleep" {
			out = append(out, p.PID)
		}
	}
	return out, err
}

// memory is what processes hold, in MB of 10^6 bytes, and how many threads they have.
type memory struct{ pss, private, threads float64 }

func memoryOf(pids ...int) (sum memory, err error) {
	const kib = 1024 / 1e6
	for _, pid := range pids {
		raw, err := os.ReadFile(proc.Path(pid, "smaps_rollup"))
		if err != nil {
			return sum, fmt.Errorf("read memory of pid %d: %w", pid, err)
		}
		tasks, err := tasksOf(pid)
		if err != nil {
			return sum, err
		}
		sum.pss += kib * number(raw, "Pss:")
		sum.private += kib * (number(raw, "Private_Clean:") + number(raw, "Private_Dirty:"))
		sum.threads += float64(len(tasks))
	}
	return sum, nil
}

// switchesOf is how often processes have been switched to since they began, over all their threads.
func switchesOf(pids ...int) (sum float64, err error) {
	for _, pid := range pids {
		tasks, err := tasksOf(pid)
		if err != nil {
			return 0, err
		}
		for _, task := range tasks {
			status, err := os.ReadFile(filepath.Join(task, "status"))
			if err != nil {
				return 0, fmt.Errorf("read context switches: %w", err)
			}
			sum += number(status, "voluntary_ctxt_switches:") + number(status, "nonvoluntary_ctxt_switches:")
		}
	}
	return sum, nil
}

func tasksOf(pid int) ([]string, error) {
	tasks, err := filepath.Glob(proc.Path(pid, "task/*"))
	if err == nil && len(tasks) == 0 {
		err = proc.ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("list threads of pid %d: %w", pid, err)
	}
	return tasks, nil
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
