//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// What this program plays within.
const (
	initRole   = "__init"
	soakRole   = "__soak"
	serverRole = "__server"
	helperRole = "__helper"
)

// Places within, all below a file system of its own.
const (
	binFile      = "/run/bin/mcp-tether"
	selfFile     = "/run/bin/soak"
	sourceDir    = "/run/src"
	resultDir    = "/run/results"
	engineSocket = "/run/engine/engine.sock"
	logDir       = "/run/log"
	cgroupRoot   = "/sys/fs/cgroup"
)

// enterWorld runs the soak in namespaces of its own, with an engine beside them, and takes both away.
func enterWorld(o options) (err error) {
	scratch, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	engine := filepath.Join(scratch, "engine")
	if _, missing := exec.LookPath("dockerd"); o.engine && missing == nil {
		out, err := exec.Command("scripts/engine", "start", engine, "docker", strconv.Itoa(os.Getpid())).CombinedOutput()
		if err != nil {
			return fmt.Errorf("start an engine: %w\n%s", err, out)
		}
		defer func() { err = errors.Join(err, exec.Command("scripts/engine", "stop", engine).Run()) }()
	} else if err := os.Mkdir(engine, 0o700); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	own, err := testkit.WritableCgroup()
	if err != nil {
		return fmt.Errorf("find a cgroup: %w", err)
	}
	group := filepath.Join(own, fmt.Sprintf("soak-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	defer testkit.RemoveCgroup(group)
	return within(o, engine, group)
}

// within starts the first process of the namespaces, and waits for it.
func within(o options, engine, group string) error {
	fd, err := unix.Open(group, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the cgroup: %w", err)
	}
	defer unix.Close(fd)
	cmd := exec.Command("/proc/self/exe", append([]string{initRole, engine, o.bin, o.dir}, words(o)...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP,
		Pdeathsig: unix.SIGKILL, Setpgid: true, UseCgroupFD: true, CgroupFD: fd,
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("enter the namespaces: %w", err)
	}
	go func() {
		for range told {
			_ = cmd.Process.Signal(unix.SIGTERM)
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return errFound
	}
	return err
}

// words is the command line for within, where the places are known.
func words(o options) []string {
	return []string{
		"-bin", binFile, "-dir", resultDir, "-hours", fmt.Sprint(o.hours), "-seed", fmt.Sprint(o.seed), "-slots", fmt.Sprint(o.slots),
		"-life", fmt.Sprint(o.life),
	}
}

// beInit is the first process of the pid namespace. It makes the world, starts the soak and waits for every orphan.
func beInit(args []string) error {
	if err := isolate(args[0], args[1], args[2]); err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGTERM)
	// Not exec.Cmd: this process waits for all children alike.
	child, err := syscall.ForkExec(selfFile, append([]string{"soak", soakRole}, args[3:]...), &syscall.ProcAttr{
		Dir: sourceDir, Env: environment(), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return fmt.Errorf("start the soak: %w", err)
	}
	go func() {
		for range told {
			_ = unix.Kill(child, unix.SIGTERM)
		}
	}()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		if pid == child && (ws.Exited() || ws.Signaled()) {
			os.Exit(ws.ExitStatus())
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for children: %w", err)
		}
	}
}

// environment is that of gateways and of reap. Of the world outside they see the search path alone.
func environment() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/run/home", "XDG_STATE_HOME=/run/state"}
	if _, err := os.Stat(engineSocket); err == nil {
		env = append(env, "DOCKER_HOST=unix://"+engineSocket)
	}
	return env
}

// isolate makes the file systems within: what is outside of them stays as it is.
func isolate(engine, bin, results string) error {
	source, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the sources: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// The names outside may be below what is covered here, so what they name is held open.
	type place struct{ from, to string }
	places := []place{{bin, binFile}, {self, selfFile}, {source, sourceDir}, {results, resultDir}, {engine, filepath.Dir(engineSocket)}}
	for i := range places {
		fd, err := unix.Open(places[i].from, unix.O_PATH, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", places[i].from, err)
		}
		defer unix.Close(fd)
		places[i].from = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, p := range places {
		if err := bind(p.from, p.to); err != nil {
			return err
		}
	}
	_ = unix.Unmount(cgroupRoot, unix.MNT_DETACH)
	for _, m := range []struct{ kind, target string }{{"tmpfs", "/tmp"}, {"proc", "/proc"}, {"cgroup2", cgroupRoot}} {
		if err := unix.Mount(m.kind, m.target, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for _, dir := range []string{logDir, "/run/home", "/run/state", filepath.Dir(knownFile)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	return os.WriteFile(knownFile, []byte(knownText), 0o600)
}

// bind puts a file or directory at another place.
func bind(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("find %s: %w", to, err)
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else {
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, nil, 0o755))
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", to, err)
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("put %s in its place: %w", to, err)
	}
	return nil
}
