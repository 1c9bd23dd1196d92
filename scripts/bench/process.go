package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is one entry of the process table. Start goes with the pid wherever one is kept: pids are used again.
type process struct {
	pid, parent int
	start       string
	comm        string
	state       string
}

func readProcess(pid int) (process, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// The name stands in brackets and may hold anything, brackets too.
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	fields := strings.Fields(string(raw[end+1:]))
	if len(fields) < 20 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, false
	}
	return process{pid: pid, parent: parent, start: fields[19], comm: string(raw[open+1 : end]), state: fields[0]}, true
}

// below lists the living descendants of a process, parents first.
func below(root int) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok && p.state != "Z" {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := children[root]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found, nil
}

func (p process) alive() bool {
	now, ok := readProcess(p.pid)
	return ok && now.start == p.start && now.state != "Z"
}

// kill ends exactly this process. The pidfd is opened first and the start time read after, so a pid that was given away
// in between is noticed.
func (p process) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if p.alive() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// role says what a wrapper's process is there for.
func (p process) role(first int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	argv := bytes.Split(raw, []byte{0})
	if len(argv) > 1 && string(argv[1]) == "__supervise" {
		return "supervisor"
	}
	if p.pid == first {
		return "anchor"
	}
	return "inner"
}

// wrappers lists the processes of a session that are not its sleeping server: from the one we started down.
func wrappers(l *live) ([]process, error) {
	first, ok := readProcess(l.pid)
	if !ok {
		return nil, fmt.Errorf("read process %d: it has gone", l.pid)
	}
	rest, err := below(l.pid)
	if err != nil {
		return nil, err
	}
	var out []process
	for _, p := range append([]process{first}, rest...) {
		if p.comm != "sleep" {
			out = append(out, p)
		}
	}
	return out, nil
}

// memory is what a process holds, in KiB.
type memory struct{ pss, private, threads float64 }

func (p process) memory() (memory, error) {
	path := fmt.Sprintf("/proc/%d/smaps_rollup", p.pid)
	raw, err := os.ReadFile(path)
	if err != nil {
		return memory{}, fmt.Errorf("read memory of pid %d: %w", p.pid, err)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.pid))
	if err != nil {
		return memory{}, fmt.Errorf("list threads of pid %d: %w", p.pid, err)
	}
	return memory{
		pss:     number(raw, "Pss:"),
		private: number(raw, "Private_Clean:") + number(raw, "Private_Dirty:"),
		threads: float64(len(tasks)),
	}, nil
}

// activity is what a process has done since it began, over all its threads.
type activity struct {
	switches float64
	cpu      time.Duration
}

func (p process) activity() (activity, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.pid))
	if err != nil || len(tasks) == 0 {
		return activity{}, fmt.Errorf("list threads of pid %d: none there (%w)", p.pid, err)
	}
	var a activity
	for _, task := range tasks {
		status, err := os.ReadFile(filepath.Join(task, "status"))
		if err != nil {
			return a, fmt.Errorf("read context switches: %w", err)
		}
		a.switches += number(status, "voluntary_ctxt_switches:") + number(status, "nonvoluntary_ctxt_switches:")
		// schedstat counts nanoseconds; the times in stat are in hundredths of a second and would all be zero.
		sched, err := os.ReadFile(filepath.Join(task, "schedstat"))
		if err != nil {
			return a, fmt.Errorf("read cpu time: %w", err)
		}
		ns, _, _ := strings.Cut(string(sched), " ")
		n, err := strconv.ParseInt(ns, 10, 64)
		if err != nil {
			return a, fmt.Errorf("read cpu time from %q: %w", sched, err)
		}
		a.cpu += time.Duration(n)
	}
	return a, nil
}

// number finds the line that starts with key and returns its first number, or zero.
func number(raw []byte, key string) float64 {
	for line := range strings.Lines(string(raw)) {
		rest, ok := strings.CutPrefix(line, key)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0
		}
		n, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0
		}
		return n
	}
	return 0
}
