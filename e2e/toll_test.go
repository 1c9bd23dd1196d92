package e2e

import (
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// tollCase is a server with what it leaves behind.
type tollCase struct {
	root          string
	children      []string
	flags         []string
	ended, killed int
	names         []string
}

func tollCases() map[string]tollCase {
	return map[string]tollCase{
		"nothing":                 {root: "serve", flags: polite()},
		"one that has to be hit":  {root: "serve", children: []string{"daemon,comm=helper", "daemon,comm=deaf,ignore-term"}, flags: resisting(), ended: 2, killed: 1, names: []string{"deaf", "helper"}},
		"the server as well":      {root: "serve,ignore-eof,ignore-term", children: []string{"daemon,comm=deaf,ignore-term"}, flags: quick(), ended: 2, killed: 2, names: []string{"deaf"}},
		"one that is to be kept":  {root: "serve", children: []string{"daemon,comm=helper", "daemon,comm=spared,keep"}, flags: polite(), ended: 1, names: []string{"helper"}},
		"without a cgroup either": {root: "serve", children: []string{"daemon,comm=deaf,ignore-term"}, flags: resisting("--cgroup=off"), ended: 1, killed: 1, names: []string{"deaf"}},
	}
}

// The closing event says what was ended, and how.
func TestLogSaysWhatWasEnded(t *testing.T) {
	t.Parallel()
	for name, c := range tollCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{Flags: c.flags}, c.root, c.children...)
			s.closeStdin()
			s.Wait()
			e := s.Ended()
			slices.Sort(e.Names)
			if e.Ended != c.ended || e.Killed != c.killed || !slices.Equal(e.Names, c.names) {
				t.Errorf("%d ended, %d killed, %q, want %+v", e.Ended, e.Killed, e.Names, c)
			}
		})
	}
}

// So does run itself to a person, and to nobody else.
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
