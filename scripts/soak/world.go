//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// soakRole is what this program plays on a host of its own.
const soakRole = "__soak"

// Places there.
const (
	logDir = "/run/log"
	// Each life has a directory, which is in the command lines of its servers and of all that they start.
	lifeDir     = "/run/life/"
	innocentDir = "/run/innocent"
)

// enterWorld runs the soak on a host of its own (stage.Host), with an engine beside it, and takes both away.
func enterWorld(o options) (err error) {
	cast, tidy, err := stage.Cast("soak", o.bin)
	if err != nil {
		return err
	}
	defer tidy()
	self, err1 := os.Executable()
	source, err2 := os.Getwd()
	group, err3 := stage.MakeCgroup(fmt.Sprintf("soak-%d", os.Getpid()))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	defer stage.RemoveCgroup(group)
	// Of the world outside they see the search path alone.
	env := []string{"PATH=" + os.Getenv("PATH"), "PWD=" + source, "HOME=/run/home", "XDG_STATE_HOME=/run/state"}
	engine := filepath.Join(filepath.Dir(cast.Fixture), "engine")
	if _, missing := exec.LookPath("dockerd"); missing == nil {
		out, err := exec.Command("scripts/engine", "start", engine, "docker", strconv.Itoa(os.Getpid())).CombinedOutput()
		if err != nil {
			return fmt.Errorf("start an engine: %w\n%s", err, out)
		}
		defer func() { err = errors.Join(err, exec.Command("scripts/engine", "stop", engine).Run()) }()
		env = append(env, "DOCKER_HOST=unix://"+engine+"/engine.sock")
	}
	cmd := cast.Host(context.Background(), group, []string{o.dir, source}, append([]string{self, soakRole, cast.Fixture}, os.Args[1:]...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a host: %w", err)
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

// settle makes the places of the soak on its host.
func settle() error {
	errs := []error{os.Chdir(os.Getenv("PWD"))}
	for _, dir := range []string{logDir, "/run/home", "/run/state", lifeDir, innocentDir, filepath.Dir(knownFile)} {
		errs = append(errs, os.MkdirAll(dir, 0o700))
	}
	return errors.Join(append(errs, os.WriteFile(knownFile, []byte(knownText), 0o600))...)
}
