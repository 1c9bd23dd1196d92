package proc

import (
	"errors"
	"testing"
)

func TestIsLauncher(t *testing.T) {
	for comm, want := range map[string]bool{
		"sh": true, "bash": true, "-bash": true, "-zsh": true, "dash": true, "busybox": true,
		"npm": true, "npx": true, "npm exec @model": true, "npm run dev": true, "pnpm": true, "uv": true, "uvx": true,
		"env": true, "timeout": true, "sudo": true, "tini": true, "mcp-tether": true,
		"": false, "-": false, "--bash": false, " sh": false, "shell": false, "bas": false, "SH": false, "sh\n": false,
		"node": false, "codex": false, "claude": false, "python3": false, "npmx": false, "uvicorn": false, "environ": false,
	} {
		if got := IsLauncher(comm); got != want {
			t.Errorf("%q: %v", comm, got)
		}
	}
}

func TestGateway(t *testing.T) {
	table := map[int]Stat{
		10: {PPID: 1, Comm: "codex"},
		11: {PPID: 10, Comm: "bash"},
		12: {PPID: 11, Comm: "npm exec @x/y"},
		20: {PPID: 1, Comm: "sh"},
		21: {PPID: 20, Comm: "timeout"},
		30: {PPID: 29, Comm: "sh"}, // 29 cannot be read
		40: {PPID: 41, Comm: "sh"}, // a loop, as reused pids could make one
		41: {PPID: 40, Comm: "bash"},
		50: {PPID: 0, Comm: "sh"},  // parent in another pid namespace
		60: {PPID: 10, Comm: "sh"}, // runs a script of its own: a gateway
		61: {PPID: 60, Comm: "npx"},
		62: {PPID: 10, Comm: "bash"}, // a person types into it
		63: {PPID: 10, Comm: "bash"}, // started for the program under its other name
	}
	lines := map[int][]string{
		11: {"bash", "-c", "npx mcp-tether run -- srv"}, 20: {"sh", "-c", "exec mcp-tether run -- srv"}, 30: {"sh", "-c", "mcp-tether"},
		40: {"sh", "-c", "mcp-tether"}, 41: {"sh", "-c", "mcp-tether"}, 50: {"sh", "-c", "mcp-tether"},
		60: {"sh", "gateway.sh"}, 62: {"-bash"}, 63: {"bash", "-c", "tether run srv"},
	}
	args := func(s Stat) ([]string, error) { return lines[s.PID], nil }
	stat := func(pid int) (Stat, error) {
		s, ok := table[pid]
		if !ok {
			return Stat{PPID: 10, Comm: "not to be used"}, errors.New("unknown")
		}
		s.PID = pid
		return s, nil
	}
	for parent, want := range map[int]int{
		10: 10, 11: 10, 12: 10, 20: 0, 21: 0, 30: 0, 29: 0, 40: 0, 50: 0, 1: 0, 0: 0, -1: 0,
		60: 60, 61: 60, 62: 62, 63: 10,
	} {
		if got := Gateway(parent, "tether", stat, args); got.PID != want {
			t.Errorf("from %d: %+v, want pid %d", parent, got, want)
		}
	}
}

// Gateway climbs as far as any real chain of launchers is long, and no further.
func TestGatewayIsBounded(t *testing.T) {
	asked := 0
	got := Gateway(1<<20, "", func(pid int) (Stat, error) {
		asked++
		return Stat{ID: ID{PID: pid}, PPID: pid - 1, Comm: "npx"}, nil
	}, nil)
	if got != (Stat{}) || asked != maxAncestors {
		t.Errorf("%+v after %d", got, asked)
	}
}

// Only a command that the shell was given counts, not what a script is given.
func TestShellCommand(t *testing.T) {
	for want, lines := range map[string][][]string{
		"": {
			nil, {"sh"}, {"-bash"}, {"sh", "-c"}, {"sh", "gateway.sh", "tether"}, {"sh", "-e", "gateway.sh", "-c", "tether"},
			{"bash", "--norc", "--", "script", "tether"}, {"bash", "-o", "posix", "script"}, {"sh", "-s", "tether"}, {"sh", "+c", "tether"},
		},
		"tether": {
			{"sh", "-c", "tether"}, {"sh", "-ec", "tether", "name"}, {"bash", "-l", "-c", "tether"}, {"bash", "--norc", "-c", "tether"},
			{"bash", "-c", "--", "tether"}, {"bash", "-o", "pipefail", "-c", "tether"}, {"bash", "-euo", "pipefail", "-c", "tether"},
			{"bash", "--rcfile", "/dev/null", "-c", "tether"}, {"bash", "+o", "posix", "-c", "tether"}, {"sh", "-c", "-e", "tether"},
		},
	} {
		for _, line := range lines {
			if got := shellCommand(line); got != want {
				t.Errorf("%q: %q, want %q", line, got, want)
			}
		}
	}
}
