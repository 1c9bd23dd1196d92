package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// crowdArg has this program fill a host of its own, and measure there.
const crowdArg = "__crowd"

// fuse ends the crowd's processes should all else fail.
const fuse = "900"

// reapConfig names a few servers, as a user's configuration would.
const reapConfig = `{"mcpServers": {
	"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]},
	"git": {"command": "uvx", "args": ["mcp-server-git"]},
	"own": {"command": "/opt/own-server", "args": ["--stdio"]}}}`

// reapPS is the ps that a pass is compared with.
var reapPS = []string{"ps", "-eo", "pid,ppid,lstart,args"}

// measureReap compares a pass of reap with ps on a host of many processes. Nobody else's processes are on
// that host.
func measureReap(b *bench) (table, error) {
	t := table{
		Title:   "A host of many processes: a pass of reap beside " + strings.Join(reapPS, " "),
		Columns: []string{"pairs", "ps ms", "reap ms", "ratio", "ratio of processor times"},
	}
	if os.Getuid() != 0 {
		t.missing("mcp-tether reap (needs root)", "")
		return t, nil
	}
	if err := needRoom(b.crowd, float64(b.crowd)*0.25); err != nil {
		return t, err
	}
	// What others have left is hidden there: each user who has something where reap looks costs a child process.
	cmd := b.programs.Host(context.Background(), "", nil, b.self, crowdArg, b.programs.Tether, strconv.Itoa(max(b.rounds/10, 3)), strconv.Itoa(b.crowd))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return t, fmt.Errorf("run a host of our own: %w", err)
	}
	var took crowded
	if err := json.Unmarshal(out, &took); err != nil {
		return t, fmt.Errorf("read its figures: %w", err)
	}
	ps, reap := walls(took.PS), walls(took.Reap)
	t.add("mcp-tether reap", fmt.Sprintf("%d processes", b.crowd), float64(len(ps)), median(ps), median(reap), median(ratios(reap, ps)),
		median(ratios(processors(took.Reap), processors(took.PS))))
	return t, nil
}

// crowded is what was measured on the host: each run.
type crowded struct{ PS, Reap []cost }

// cost is what one run of a program took, in ms.
type cost struct{ Wall, Processor float64 }

func walls(all []cost) (out []float64) {
	for _, c := range all {
		out = append(out, c.Wall)
	}
	return out
}

func processors(all []cost) (out []float64) {
	for _, c := range all {
		out = append(out, c.Processor)
	}
	return out
}

// playCrowd fills the host and measures. All others end with it.
func playCrowd(args []string) int {
	rounds, _ := strconv.Atoi(args[1])
	n, _ := strconv.Atoi(args[2])
	took, err := fillAndMeasure(args[0], rounds, n)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(took)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func fillAndMeasure(bin string, rounds, n int) (took crowded, err error) {
	config := filepath.Join(os.TempDir(), "reap.json") // the host's own
	if err := os.WriteFile(config, []byte(reapConfig), 0o600); err != nil {
		return took, fmt.Errorf("write a configuration: %w", err)
	}
	for i := range n {
		if _, err := syscall.ForkExec("/bin/sleep", []string{"sleep", fuse}, &syscall.ProcAttr{Env: os.Environ()}); err != nil {
			return took, fmt.Errorf("start process %d of %d: %w", i, n, err)
		}
	}
	for i := range rounds + 1 {
		ps, err := timed(reapPS[0], reapPS[1:]...)
		if err != nil {
			return took, err
		}
		reap, err := timed(bin, "reap", "--config", config)
		if err != nil {
			return took, err
		}
		if i > 0 { // the first one warms up
			took.PS, took.Reap = append(took.PS, ps), append(took.Reap, reap)
		}
	}
	return took, nil
}

// timed runs a program to its end with its output thrown away. Findings (exit 1) are no failure.
func timed(name string, args ...string) (cost, error) {
	cmd := exec.Command(name, args...)
	from := time.Now()
	err := cmd.Run()
	wall := time.Since(from)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return cost{}, fmt.Errorf("run %s: %w", name, err)
	}
	return cost{ms(wall), ms(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())}, nil
}

// spare are the process numbers that are left to others on this machine.
const spare = 2_000

// needRoom reports whether the machine has room for so many more tasks, and so many MB of memory. What asks for more than there
// is would make everybody else's starts fail, too.
func needRoom(tasks int, megabytes float64) error {
	pidMax, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return fmt.Errorf("read how many tasks there may be: %w", err)
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return fmt.Errorf("read how many tasks there are: %w", err)
	}
	_, after, _ := strings.Cut(string(load), "/") // "0.20 0.18 0.12 1/80 11206": running and all tasks (proc_loadavg(5))
	most, there := number(pidMax, ""), number([]byte(after), "")
	if free := int(most-there) - spare; tasks > free {
		return fmt.Errorf("no room for %d more processes and threads, but for %d: raise kernel.pid_max, or ask for less", tasks, free)
	}
	if free := available(); megabytes > free {
		return fmt.Errorf("no room for %.0f MB, but for %.0f: ask for less", megabytes, free)
	}
	return nil
}
