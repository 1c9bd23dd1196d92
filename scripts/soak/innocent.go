//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startInnocents starts what belongs to no session and looks like what does: a detached process, a server that no gateway has, and a
// container. A bare session is among those that last.
func (s *soak) startInnocents() error {
	if err := startHelper("fork", []string{"innocent"}); err != nil {
		return err
	}
	// Its input stays open, as that of a server whose gateway lives.
	server := exec.Command(selfFile, serverRole, "innocent", "helpers")
	server.Env = environment()
	if _, err := server.StdinPipe(); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start an innocent: %w", err)
	}
	go func() { _ = server.Wait() }()
	if s.image != "" {
		id, err := exec.Command("docker", "run", "--detach", "--net=none", s.image, inImage, helperRole, "plain").Output()
		if err != nil {
			return fmt.Errorf("start a container: %w", err)
		}
		s.box = strings.TrimSpace(string(id))
	}
	time.Sleep(time.Second) // the forks have ended
	all, err := living()
	for _, p := range all {
		if strings.HasSuffix(strings.Join(p.args, " "), "innocent") || strings.Contains(strings.Join(p.args, " "), "innocent helpers") {
			s.innocents[p.String()] = p
		}
	}
	if len(s.innocents) < 5 {
		return fmt.Errorf("only %d innocents came up: %v", len(s.innocents), s.innocents)
	}
	return err
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
		now, ok := readProcess(p.pid)
		if !ok || now.start != p.start || now.state == 'T' {
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
	out, err := exec.Command("docker", "inspect", "--format", "{{.State.Running}}", s.box).Output()
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		s.tally.bad("an innocent container was hit: %s %v", out, err)
		s.box = ""
	}
}

func (s *soak) endInnocents() {
	for _, p := range s.innocents {
		_ = p.signal(unix.SIGKILL)
		s.tally.count("innocents that lived, in all runs")
	}
	if s.box != "" {
		_ = exec.Command("docker", "rm", "-f", s.box).Run()
		s.tally.count("innocents that lived, in all runs")
	}
}

// tarOf is a file system with this program alone.
func tarOf(program []byte) *bytes.Buffer {
	var files bytes.Buffer
	out := tar.NewWriter(&files)
	_ = out.WriteHeader(&tar.Header{Name: inImage[1:], Mode: 0o755, Size: int64(len(program)), ModTime: time.Unix(0, 0)})
	_, _ = out.Write(program)
	_ = out.Close()
	return &files
}
