package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCommand runs testdata/command, one behaviour of the command line a file. Besides testscript's own commands there is
//
//	exits CODE COMMAND [ARG...]
func TestCommand(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "command"),
		RequireExplicitExec: true,
		Setup:               setUp,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// setUp gives a script the two programs, and directories of its own for records and history.
func setUp(env *testscript.Env) error {
	env.Setenv("TETHER", tether)
	env.Setenv("PATH", filepath.Dir(tether)+":"+filepath.Dir(fixture)+":"+os.Getenv("PATH"))
	env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, "run"))
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
	return errors.Join(os.Mkdir(filepath.Join(env.WorkDir, "run"), 0o700), os.Mkdir(filepath.Join(env.WorkDir, "state"), 0o700))
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit %d, want %d", got, want)
	}
}
