package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// othersPatience is how long a wrapper may take: mcp-tether asks a server first, and waits 1.5 s.
const othersPatience = 8 * time.Second

// others are the wrappers that people use in the place of mcp-tether, each with the flags that serve this purpose best.
var others = [][]string{
	{},
	{"tini", "-s", "-g", "-p", "SIGTERM", "--"},
	{"dumb-init", "--"},
	{"setpriv", "--pdeathsig", "KILL"},
	{"bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--die-with-parent"},
	{"systemd-run", "--scope", "--quiet", "--"},
	{"reliable-mcp", "--"},
	{"mcp-mux"},
}

// lacks says why a wrapper cannot be tried here, "" if it can.
func lacks(wrapper string) string {
	if _, err := exec.LookPath(wrapper); err != nil {
		return "not installed"
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil && wrapper == "systemd-run" {
		return "systemd does not run here"
	}
	return ""
}

// compareOthers tells the story twice under every wrapper that is installed: once the gateway is SIGKILLed, and once
// the wrapper.
func compareOthers(ctx context.Context, tether string) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WRAPPER\tGATEWAY SIGKILLED\tWRAPPER SIGKILLED")
	for _, wrapper := range append(others, []string{tether, "run", "--log-level=error", "--"}) {
		name := "bare"
		if len(wrapper) > 0 {
			name = filepath.Base(strings.Join(wrapper[:1], "")) + " " + strings.Join(wrapper[1:], " ")
			if why := lacks(wrapper[0]); why != "" {
				fmt.Fprintf(table, "%s\t%s\n", name, why)
				continue
			}
		}
		cells := []string{name}
		for _, victim := range []string{"gateway", "wrapper"} {
			if victim == "wrapper" && len(wrapper) == 0 {
				cells = append(cells, "-")
				continue
			}
			s, err := performOn(ctx, victim, othersPatience, wrapper...)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			cells = append(cells, verdict(s))
			if err := stopDaemon(ctx, wrapper); err != nil {
				return err
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// stopDaemon ends the process that mcp-mux leaves in the background for later sessions. It is no part of the story.
func stopDaemon(ctx context.Context, wrapper []string) error {
	if len(wrapper) == 0 || wrapper[0] != "mcp-mux" {
		return nil
	}
	if msg, err := exec.CommandContext(ctx, "mcp-mux", "stop", "--force").CombinedOutput(); err != nil {
		return fmt.Errorf("mcp-mux stop: %w\n%s", err, msg)
	}
	return nil
}

// verdict names those of the server, the worker and the helper that are left.
func verdict(s *stage) string {
	var left []string
	for _, m := range s.left() {
		if m.pid != 0 {
			left = append(left, m.name)
		}
	}
	if len(left) == 0 {
		return "nothing left"
	}
	return strings.Join(left, ", ") + " left"
}

// childOf is the one child of the gateway.
func childOf(pid int) (int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range lists {
		b, err := os.ReadFile(file)
		var child int
		if _, serr := fmt.Sscan(string(b), &child); err == nil && serr == nil {
			return child, nil
		}
	}
	return 0, errors.New("the gateway has no child")
}
