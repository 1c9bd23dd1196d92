package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// reapConfig names a few servers, as a user's configuration would.
const reapConfig = `{"mcpServers": {
	"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]},
	"git": {"command": "uvx", "args": ["mcp-server-git"]},
	"own": {"command": "/opt/own-server", "args": ["--stdio"]}}}`

// measureReap compares a pass of reap with ps on a host of many processes.
func measureReap(b *bench) (table, error) {
	ps := subject{name: "ps", wrap: []string{"ps", "-eo", "pid,ppid,lstart,args"}}
	t := table{Title: "A host of many processes: a pass of reap beside " + strings.Join(ps.wrap, " ") + ", in ms", Columns: pairColumns()}
	if err := needRoom(b.crowd, float64(b.crowd)*0.25); err != nil {
		return t, err
	}
	const config = "/tmp/reap.json"
	if err := os.WriteFile(config, []byte(reapConfig), 0o600); err != nil {
		return t, fmt.Errorf("write a configuration: %w", err)
	}
	for i := range b.crowd {
		pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000000"}, &syscall.ProcAttr{Env: os.Environ()})
		if err != nil {
			return t, fmt.Errorf("start process %d of %d: %w", i, b.crowd, err)
		}
		defer func() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}()
	}
	reap := subject{name: "mcp-tether reap", wrap: []string{b.programs.Tether, "reap", "--config", config}}
	return t, t.against(ps, reap, fmt.Sprintf("%d processes", b.crowd), max(b.rounds/10, 3), timed)
}

// timed runs a program to its end with its output thrown away. Findings (exit 1) are no failure.
func timed(s subject) (float64, error) {
	cmd := exec.Command(s.wrap[0], s.wrap[1:]...)
	from := time.Now()
	err := cmd.Run()
	took := ms(time.Since(from))
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return 0, fmt.Errorf("run %v: %w", s.wrap, err)
	}
	return took, nil
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
