package e2e

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// A person at a terminal is told what was ended beside the server, and nobody else is.
func TestTerminalSaysWhatWasEnded(t *testing.T) {
	t.Parallel()
	const leaves = `"$0" "$1" & "$0" "$2"; exit 0`
	for name, c := range map[string]struct {
		flags    []string
		helper   string
		terminal bool
		want     string
	}{
		"a helper":                {helper: "1000", terminal: true, want: "mcp-tether: ended 1 process beside the server: s"}, // sleep, or yet the shell that is to become it
		"nothing":                 {terminal: true},
		"the log says it already": {flags: []string{"--log-level=info"}, helper: "1000", terminal: true},
		"a pipe":                  {helper: "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sleep, err := exec.LookPath("sleep")
			testkit.Lacks(t, testkit.Tools, err != nil, "sleep")
			script := leaves
			if c.helper == "" {
				script = "exit"
			}
			argv := append(append([]string{tether, "run"}, c.flags...), "--", "/bin/sh", "-c", script, sleep, c.helper, "0")
			env := []string{"XDG_RUNTIME_DIR=" + t.TempDir()}
			var said string
			if c.terminal {
				y := openTTY(t, env, nil, argv...)
				_ = y.cmd.Wait()
				b, _ := io.ReadAll(y.master)
				said = string(b)
			} else {
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Env = append(cmd.Environ(), env...)
				o := finish(t, cmd)
				said = o.stderr + o.stdout
			}
			if !strings.Contains(said, c.want) || c.want == "" && strings.Contains(said, filepath.Base(tether)+": ended") {
				t.Errorf("%q, want %q", said, c.want)
			}
		})
	}
}
