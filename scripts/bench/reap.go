package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// crowdArg makes this program the first process of a host of its own, with many others.
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

// measureReap compares a pass of reap with ps on hosts of more and more processes, and says what a session costs there. The
// host is a pid namespace of its own: it ends with its first process, and nobody else's processes are counted.
func measureReap(b *bench) (table, error) {
	t := table{
		Section: "reap",
		Title:   "A host of N processes: a pass of reap beside " + strings.Join(reapPS, " ") + ", and a session that leaves one process behind",
		Columns: []string{"pairs", "ps ms", "reap ms", "ratio", "processor ratio", "processor µs a process", "session ms", "processor ms"},
	}
	if os.Getuid() != 0 {
		t.missing("mcp-tether reap (needs root)", "")
		return t, nil
	}
	config := filepath.Join(b.dir, "reap.json")
	if err := os.WriteFile(config, []byte(reapConfig), 0o600); err != nil {
		return t, fmt.Errorf("write a configuration: %w", err)
	}
	var sizes []string
	for _, n := range grown(b.crowd) {
		sizes = append(sizes, strconv.Itoa(n))
	}
	if err := needRoom(b.crowd, float64(b.crowd)*0.25); err != nil {
		return t, err
	}
	var hosts []crowded
	args := append([]string{crowdArg, b.bin, config, strconv.Itoa(max(b.rounds/10, 3))}, sizes...)
	if err := b.onOwnHost(&hosts, args...); err != nil {
		return t, err
	}
	for i, h := range hosts {
		ps, reap := walls(h.PS), walls(h.Reap)
		cpu := processors(h.Reap)
		t.add("mcp-tether reap", sizes[i]+" processes", float64(len(ps)), median(ps), median(reap), median(ratios(reap, ps)),
			median(ratios(cpu, processors(h.PS))), 1000*median(cpu)/float64(h.Processes), median(walls(h.Session)), median(processors(h.Session)))
	}
	return t, nil
}

// grown are the numbers at which something is measured, up to n: whether it is flat shows in three of them.
func grown(n int) []int {
	all := []int{max(n/10, 1), max(n/3, 1), n}
	return slices.Compact(all)
}

// crowded is what was measured at one number of processes: each of its runs.
type crowded struct {
	Processes         int
	PS, Reap, Session []cost
}

// cost is what one run of a program took, in ms, and its exit code.
type cost struct {
	Wall, Processor float64
	Code            int
}

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

// onOwnHost has this program play a role as the first process of a host of its own, and reads its figures.
func (b *bench) onOwnHost(figures any, args ...string) error {
	cmd := exec.Command(b.self, args...)
	cmd.Env, cmd.Stderr = b.env, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run a host of our own: %w", err)
	}
	if err := json.Unmarshal(out, figures); err != nil {
		return fmt.Errorf("read its figures: %w", err)
	}
	return nil
}

// playCrowd is process 1 of the host: it fills it and measures. All others end with it.
func playCrowd(args []string) int {
	rounds, _ := strconv.Atoi(args[2])
	return tellFigures(fillAndMeasure(args[0], args[1], rounds, args[3:]))
}

func tellFigures(figures any, err error) int {
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(figures)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func fillAndMeasure(bin, config string, rounds int, sizes []string) (hosts []crowded, err error) {
	bin, config, err = aloneWith(bin, config)
	if err != nil {
		return nil, err
	}
	procs := 0
	for _, size := range sizes {
		n, _ := strconv.Atoi(size)
		for ; procs < n; procs++ {
			if _, err := syscall.ForkExec("/bin/sleep", []string{"sleep", fuse}, &syscall.ProcAttr{Env: os.Environ()}); err != nil {
				return nil, fmt.Errorf("start process %d of %d: %w", procs, n, err)
			}
		}
		h := crowded{Processes: n}
		for i := range rounds + 1 {
			if err := h.round(bin, config, i > 0); err != nil { // the first one warms up
				return nil, err
			}
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// round runs each once.
func (h *crowded) round(bin, config string, counts bool) error {
	for _, r := range []struct {
		to   *[]cost
		argv []string
	}{
		{&h.PS, reapPS},
		{&h.Reap, []string{bin, "reap", "--config", config}},
		{&h.Session, []string{bin, "run", "--", "/bin/sh", "-c", "sleep " + fuse + " & exit 0"}},
	} {
		took, err := timed(r.argv[0], r.argv[1:]...)
		if err != nil {
			return err
		}
		if counts {
			*r.to = append(*r.to, took)
		}
	}
	return nil
}

// aloneWith gives a host of our own its process table, and hides what others have left in the directories in which reap looks
// for users. Each user who has something there costs a child process. aloneWith returns where the files are now.
func aloneWith(bin, config string) (binHere, configHere string, err error) {
	const hold = "/run/hold"
	bin, err = filepath.Abs(bin)
	err = errors.Join(err, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"), os.Mkdir(hold, 0o755))
	files := []string{bin, config}
	for i, file := range files {
		at := filepath.Join(hold, strconv.Itoa(i))
		err = errors.Join(err, os.Mkdir(at, 0o755), unix.Mount(filepath.Dir(file), at, "", unix.MS_BIND, ""))
		files[i] = filepath.Join(at, filepath.Base(file))
	}
	if err = errors.Join(err, unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777")); err != nil {
		return "", "", fmt.Errorf("give the host a process table and directories of its own: %w", err)
	}
	return files[0], files[1], nil
}

// timed runs a program to its end with its output thrown away. Findings (exit 1) are no failure.
func timed(name string, args ...string) (cost, error) {
	c, err := costOf(exec.Command(name, args...))
	if err == nil && c.Code > 1 {
		err = fmt.Errorf("%s failed (exit code %d)", name, c.Code)
	}
	return c, err
}

// costOf runs a command to its end.
func costOf(cmd *exec.Cmd) (cost, error) {
	from := time.Now()
	err := cmd.Run()
	wall := time.Since(from)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return cost{}, fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	s := cmd.ProcessState
	return cost{ms(wall), ms(s.UserTime() + s.SystemTime()), s.ExitCode()}, nil
}
