package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// A gateway is in a cgroup that belongs to root, or that is full of its processes. systemd gives a cgroup that can have limits to
// whoever asks: a scope of the user's own manager, or for root of the system's. It removes the scope when that is empty. Only the
// supervisor goes there, before it has started anything.

// limitsCure is what helps where limits cannot be had.
const limitsCure = "have a systemd user manager (loginctl enable-linger): docs/limits.md"

const (
	// scopeLimit is how long systemd may take, in all.
	scopeLimit = 3 * time.Second
	scopePause = 2 * time.Millisecond
)

// enterScope asks systemd to move this process to a scope of its own, waits until that is done, and steps aside there: below dir
// leaves can have limits.
func (t *tree) enterScope() (dir string, err error) {
	if t.opts.Cgroup == CgroupOff {
		return "", errors.New("systemd is not asked for a scope")
	}
	// In another pid namespace systemd would take our pid for a stranger's.
	if host, err := t.reader.ReadHost(); err != nil || !host.IsFirst() {
		return "", errors.New("systemd is not asked for a scope from a pid namespace")
	}
	unit, deadline := leafName(t.id)+".scope", time.Now().Add(scopeLimit)
	words := []string{
		"busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "StartTransientUnit",
		"ssa(sv)a(sa(sv))", unit, "fail", "4", "Description", "s", "MCP server " + t.opts.Name, "Delegate", "b", "true",
		"CollectMode", "s", "inactive-or-failed", "PIDs", "au", "2", strconv.Itoa(t.above.supervisor), strconv.Itoa(os.Getpid()), "0",
	}
	if uid := os.Getuid(); uid != 0 {
		words = append(words, "--user")
	}
	if err := askSystemd(words, deadline); err != nil {
		return "", fmt.Errorf("ask systemd for a scope: %w", err)
	}
	for time.Now().Before(deadline) {
		if dir, err := cgroup.Current(); err == nil && strings.HasSuffix(dir, "/"+unit) {
			return dir, cgroup.StepAside(dir, t.above.supervisor, os.Getpid())
		}
		proc.Sleep(scopePause)
	}
	return "", fmt.Errorf("systemd has not made %s within %v", unit, scopeLimit)
}

// askSystemd runs a command that must end by the deadline. A client may have taken away the variable that names the user's directory.
// The error has what the command says.
func askSystemd(words []string, deadline time.Time) error {
	path, err := proc.LookPath(words[0], searchPath())
	if err != nil {
		return err
	}
	ctx, stop := context.WithDeadline(context.Background(), deadline)
	defer stop()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, words[1:]...)
	cmd.Env, cmd.Stderr = []string{"XDG_RUNTIME_DIR=/run/user/" + strconv.Itoa(os.Getuid())}, &said
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setsid: true}, scopePause // What it has started may hold standard error.
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s has not ended within %v", words[0], scopeLimit)
	case err != nil:
		return fmt.Errorf("%s: %s: %w", words[0], strings.TrimSpace(said.String()), err)
	}
	return nil
}
