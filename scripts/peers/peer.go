package main

import (
	"os"
	"os/exec"
	"strings"
)

const (
	bare = "bare"
	ours = "mcp-tether"
)

// A peer is a wrapper that people use in the place of mcp-tether, with the flags that serve this purpose best.
type peer struct {
	name string
	argv []string
}

func peers(tether string) []peer {
	return []peer{
		{bare, nil},
		{"tini", []string{"tini", "-s", "-g", "-p", "SIGTERM", "--"}},
		{"dumb-init", []string{"dumb-init", "--"}},
		{"catatonit", []string{"catatonit", "-g", "--"}},
		{"bwrap", []string{"bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--die-with-parent"}},
		{"setpriv", []string{"setpriv", "--pdeathsig", "KILL"}},
		{"systemd-run", []string{"systemd-run", "--scope", "--quiet", "--"}},
		{"mcp-mux", []string{"mcp-mux"}},
		{"mcp-guardian", []string{"mcp-guardian"}},
		{"reliable-mcp", []string{"reliable-mcp", "--"}},
		{ours, []string{tether, "run", "--log-level=error", "--"}},
	}
}

// lacks says why a wrapper cannot be tried here, "" if it can.
func (p peer) lacks() string {
	if p.name == bare {
		return ""
	}
	if _, err := exec.LookPath(p.argv[0]); err != nil {
		return "not installed"
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil && p.name == "systemd-run" {
		return "no systemd here"
	}
	return ""
}

// version is the first line that the wrapper answers to --version, or its name.
func (p peer) version() string {
	if p.name == "mcp-mux" || p.name == "mcp-guardian" {
		return p.name // they would take the flag for a server
	}
	out, err := exec.Command(p.argv[0], "--version").CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || line == "" {
		return p.name
	}
	if !strings.Contains(line, p.name) {
		line = p.name + " (" + line + ")"
	}
	return line
}
