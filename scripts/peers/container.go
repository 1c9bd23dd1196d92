package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// container is what `docker run` starts in the place of the server; empty for none.
type container struct{ image, label string }

// inImage is where an image has this program.
const inImage = "/peers"

func (c container) command(argv []string) []string {
	return append([]string{"docker", "run", "--rm", "-i", "--net=none", "--label", c.label, c.image, inImage}, argv[1:]...)
}

func (c container) there() bool {
	if c.image == "" {
		return false
	}
	out, err := docker("ps", "-aq", "--filter", "label="+c.label)
	return err != nil || out != ""
}

func (c container) remove() {
	if ids, err := docker("ps", "-aq", "--filter", "label="+c.label); err == nil && ids != "" {
		_, _ = docker(append([]string{"rm", "-f"}, strings.Fields(ids)...)...)
	}
}

// docker gives up on an engine that does not answer.
func docker(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startup)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	return strings.TrimSpace(string(out)), err
}

// reachEngine has docker use the engine of the tests if there is one, and makes an image of this program; "" where no
// engine answers.
func reachEngine() (image string, err error) {
	if host := os.Getenv("MCP_TETHER_TEST_DOCKER"); host != "" {
		if err := os.Setenv("DOCKER_HOST", host); err != nil {
			return "", fmt.Errorf("name the engine: %w", err)
		}
	}
	if os.Getenv("DOCKER_HOST") == "" {
		return "", nil
	}
	if _, err := docker("version"); err != nil {
		return "", nil //nolint:nilerr // without an engine the case is not tried
	}
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	var files bytes.Buffer
	out := tar.NewWriter(&files)
	if err := out.WriteHeader(&tar.Header{Name: inImage[1:], Mode: 0o755, Size: int64(len(program)), ModTime: time.Now()}); err != nil {
		return "", fmt.Errorf("make an image: %w", err)
	}
	if _, err := out.Write(program); err != nil {
		return "", fmt.Errorf("make an image: %w", err)
	}
	if err := out.Close(); err != nil {
		return "", fmt.Errorf("make an image: %w", err)
	}
	load := exec.Command("docker", "import", "-")
	load.Stdin, load.Stderr = &files, os.Stderr
	id, err := load.Output()
	if err != nil {
		return "", fmt.Errorf("import an image: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
