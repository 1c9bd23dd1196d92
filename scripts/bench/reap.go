package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// measureReap compares a pass of reap with ps on a host of many processes. The host is a pid namespace of its own: it
// ends with its first process, and nobody else's processes are counted.
func measureReap(b *bench) (table, error) {
	t := table{
		Section: "reap",
		Title:   fmt.Sprintf("A pass of reap over %d processes, beside ps -eo pid,ppid,lstart,args", b.crowd),
		Columns: []string{"pairs", "ps ms", "reap ms", "ratio"},
	}
	if os.Getuid() != 0 {
		t.missing("mcp-tether reap (needs root)", "")
		return t, nil
	}
	bin, err := filepath.Abs(b.bin)
	if err != nil {
		return t, fmt.Errorf("find %s: %w", b.bin, err)
	}
	config := filepath.Join(b.dir, "reap.json")
	if err := os.WriteFile(config, []byte(reapConfig), 0o600); err != nil {
		return t, fmt.Errorf("write a configuration: %w", err)
	}
	rounds := max(b.rounds/10, 3)
	got, err := b.crowded(bin, config, rounds)
	if err != nil {
		return t, err
	}
	var ps, reap []float64
	for i := 0; i+1 < len(got); i += 2 {
		ps, reap = append(ps, got[i]), append(reap, got[i+1])
	}
	t.add("mcp-tether reap", "", float64(len(ps)), median(ps), median(reap), median(ratios(reap, ps)))
	return t, nil
}

// crowded runs the crowd and reads its figures in ms, ps and reap in turn.
func (b *bench) crowded(bin, config string, rounds int) ([]float64, error) {
	cmd := exec.Command(b.self, crowdArg, bin, config, strconv.Itoa(b.crowd), strconv.Itoa(rounds))
	cmd.Env, cmd.Stderr = b.env, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run a host of %d processes: %w", b.crowd, err)
	}
	var got []float64
	if err := json.Unmarshal(out, &got); err != nil {
		return nil, fmt.Errorf("read its figures: %w", err)
	}
	return got, nil
}

// playCrowd is process 1 of the host: it fills it and measures. All others end with it.
func playCrowd(args []string) int {
	procs, _ := strconv.Atoi(args[2])
	rounds, _ := strconv.Atoi(args[3])
	got, err := fillAndMeasure(args[0], args[1], procs, rounds)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(got)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func fillAndMeasure(bin, config string, procs, rounds int) ([]float64, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("keep our mounts to ourselves: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return nil, fmt.Errorf("mount /proc: %w", err)
	}
	bin, config, err := aloneWith(bin, config)
	if err != nil {
		return nil, err
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return nil, fmt.Errorf("find sleep: %w", err)
	}
	for i := range procs {
		if _, err := syscall.ForkExec(sleep, []string{"sleep", fuse}, &syscall.ProcAttr{Env: os.Environ()}); err != nil {
			return nil, fmt.Errorf("start process %d of %d: %w", i, procs, err)
		}
	}
	var got []float64
	for i := range rounds + 1 {
		ps, err := timed("ps", "-eo", "pid,ppid,lstart,args")
		if err != nil {
			return nil, err
		}
		reap, err := timed(bin, "reap", "--config", config)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first pair warms up
			got = append(got, ps, reap)
		}
	}
	return got, nil
}

// aloneWith hides what others have left in the directories in which reap looks for users. Each user who has something
// there costs a child process. aloneWith returns where the files are now.
func aloneWith(files ...string) (bin, config string, err error) {
	const hold = "/run/hold"
	err = errors.Join(unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"), os.Mkdir(hold, 0o755))
	for i, file := range files {
		at := filepath.Join(hold, strconv.Itoa(i))
		err = errors.Join(err, os.Mkdir(at, 0o755), unix.Mount(filepath.Dir(file), at, "", unix.MS_BIND, ""))
		files[i] = filepath.Join(at, filepath.Base(file))
	}
	if err = errors.Join(err, unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777")); err != nil {
		return "", "", fmt.Errorf("give the host directories of its own: %w", err)
	}
	return files[0], files[1], nil
}

// timed runs a program to its end with its output thrown away. Findings (exit 1) are no failure.
func timed(name string, args ...string) (float64, error) {
	cmd := exec.Command(name, args...)
	from := time.Now()
	err := cmd.Run()
	took := time.Since(from)
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return 0, fmt.Errorf("run %s: %w", name, err)
	}
	return ms(took), nil
}
