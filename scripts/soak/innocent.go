//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// startInnocents starts what belongs to no session and looks like what does: a detached process, a server that no gateway has, and a
// container. A bare session is among those that last.
func (s *soak) startInnocents() error {
	// Its input stays open, as that of a server whose gateway lives.
	server := exec.Command(s.cast, append(s.node(innocentDir), "daemon")...)
	if _, err := server.StdinPipe(); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start an innocent: %w", err)
	}
	go func() { _ = server.Wait() }()
	if s.image != "" {
		id, err := stage.Docker("run", "--detach", "--net=none", s.image, "/soak", "boxed", "ignore-eof", "seconds="+longest)
		if err != nil {
			return fmt.Errorf("start a container: %w", err)
		}
		s.box = id
	}
	for deadline := time.Now().Add(stage.Patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(innocentDir + "/got"); err == nil { // all that it starts is up
			break
		}
		if time.Now().After(deadline) {
			return errors.New("an innocent does not come up")
		}
	}
	for _, p := range s.living() {
		if slices.Contains(p.Words(), innocentDir) {
			s.innocents[p.String()] = p
		}
	}
	if len(s.innocents) != 6 {
		return fmt.Errorf("of 6 innocents these came up: %v", s.innocents)
	}
	return nil
}

// watch notes the innocents that were hit.
func (s *soak) watch() {
	for _, name := range hit(s.innocents) {
		s.tally.bad("an innocent was hit: %s", name)
		delete(s.innocents, name)
	}
}

// hit names those of the processes that are gone or stopped.
func hit(all map[string]process) (names []string) {
	for name, p := range all {
		now := stage.Describe(p.PID)
		if now.Dead() || now.Start != p.Start || now.State == "T" {
			names = append(names, name)
		}
	}
	return names
}

// watchBox looks whether the innocent container runs.
func (s *soak) watchBox() {
	if s.box == "" {
		return
	}
	out, err := stage.Docker("inspect", "--format", "{{.State.Running}}", s.box)
	if err != nil || out != "true" {
		s.tally.bad("an innocent container was hit: %s %v", out, err)
		s.box = ""
	}
}

func (s *soak) endInnocents() {
	for _, p := range s.innocents {
		_ = p.Signal(unix.SIGKILL)
		s.tally.count("innocents that lived, in all runs")
	}
	if s.box != "" {
		_, _ = stage.Docker("rm", "-f", s.box)
		s.tally.count("innocents that lived, in all runs")
	}
}
