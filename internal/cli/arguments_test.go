package cli

import (
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
	"mcp-tether/supervise"
)

// The anchor reads the command line before there is a flag parser. It must find what the parser would find.

// parsed is the parser's answer; ok is false where it refuses the command line or only shows the help.
func parsed(args []string) (noAnchor, ok bool) {
	run := runCommand(nil)
	run.Before = func(c *cli.Context) error {
		noAnchor, ok = c.Bool("no-anchor"), true
		return nil
	}
	run.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return err }
	app := &cli.App{
		Name: "mcp-tether", Writer: io.Discard, ErrWriter: io.Discard, HideHelpCommand: true, DisableSliceFlagSeparator: true,
		ExitErrHandler: func(*cli.Context, error) {}, Commands: []*cli.Command{run},
	}
	if err := app.Run(append([]string{"mcp-tether", "run"}, args...)); err != nil {
		return false, false
	}
	return noAnchor, ok
}

// plainEnvironment takes our variables out of the environment for one test.
func plainEnvironment(t *testing.T) {
	t.Helper()
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "MCP_TETHER_") {
			t.Setenv(name, value) // put back afterwards
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func compare(args []string, env string) error {
	noAnchor, ok := parsed(args)
	if !ok || argv.WantsAnchor(args, env) == !noAnchor {
		return nil
	}
	return errors.New("the parser says no-anchor " + map[bool]string{true: "true", false: "false"}[noAnchor])
}

func TestWantsAnchorLikeTheParser(t *testing.T) {
	plainEnvironment(t)
	understood := 0
	for _, env := range []string{"", "1", "0", "true", "false", "TRUE", "t", "F"} {
		t.Setenv("MCP_TETHER_NO_ANCHOR", env)
		for _, line := range []string{
			"-- srv", "srv", "--no-anchor -- srv", "-no-anchor srv", "--no-anchor=true srv", "--no-anchor=false srv", "--no-anchor=0 -- srv",
			"--no-anchor=T srv", "--no-anchor=F srv", "--no-anchor --no-anchor=false srv", "--no-anchor=false --no-anchor srv",
			"-- --no-anchor", "-- srv --no-anchor", "srv --no-anchor", "- --no-anchor", "--name x --no-anchor srv", "--name=x --no-anchor srv",
			// Values that look like flags.
			"--name --no-anchor srv", "--name -- --no-anchor srv", "--name --no-anchor --no-anchor srv", "--name=--no-anchor srv",
			"--keep --no-anchor --keep -- srv", "--keep=-- --no-anchor srv", "--log-file --no-anchor -- srv", "--term-grace 1s --no-anchor srv",
			"--exclusive --no-anchor srv", "--exclusive k --no-anchor srv", "--cgroup off -no-anchor=1 srv", "--name= --no-anchor srv",
			"--name - --no-anchor srv", "--log-level=info --no-anchor=f srv",
		} {
			args := strings.Fields(line)
			if err := compare(args, env); err != nil {
				t.Errorf("%q with %q in the environment: %v", line, env, err)
			}
			if _, ok := parsed(args); ok {
				understood++
			}
		}
	}
	if understood < 200 {
		t.Errorf("the parser took only %d of the lines", understood)
	}
}

// Every flag that takes no value is known to the anchor, and no other.
func TestWantsAnchorKnowsTheSwitches(t *testing.T) {
	for _, f := range runFlags() {
		_, isSwitch := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			// After a switch the next word is read; after any other flag it is the flag's value.
			if got := !argv.WantsAnchor([]string{"--" + name, "--no-anchor", "--", "srv"}, ""); got != isSwitch {
				t.Errorf("--%s: taken for a switch %v", name, got)
			}
		}
	}
}

// An empty variable, or an empty pattern, says nothing.
func TestEmptyIsUnset(t *testing.T) {
	plainEnvironment(t)
	read := func(flags ...string) supervise.Options {
		t.Helper()
		o, err := parse(append(append([]string{"mcp-tether", "run"}, flags...), "--", "srv"), true)
		if err != nil {
			t.Error(err)
		}
		if len(o.Keep) > 0 {
			t.Errorf("keep %q", o.Keep)
		}
		o.HasDead, o.Keep = nil, nil
		return o
	}
	want := read()
	for _, f := range runFlags() {
		variable := f.(cli.DocGenerationFlag).GetEnvVars()[0]
		t.Setenv(variable, "")
		if got := read(); !reflect.DeepEqual(got, want) {
			t.Errorf("empty %s: %+v, want %+v", variable, got, want)
		}
	}
	if got := read("--keep="); !reflect.DeepEqual(got, want) {
		t.Errorf("an empty pattern: %+v", got)
	}
	// What a flag says is meant.
	if _, err := parse([]string{"mcp-tether", "run", "--cgroup=", "--", "srv"}, true); err == nil {
		t.Error("an empty mode of the cgroup")
	}
}

// FuzzWantsAnchor compares what the anchor reads of a command line with urfave/cli, the parser of flags.
func FuzzWantsAnchor(f *testing.F) {
	f.Add("--name|x|--no-anchor|--|srv", "")
	f.Add("-no-anchor=false|srv", "1")
	f.Add("--keep|--|srv|--no-anchor", "0")
	f.Add("---no-anchor|--=|-", "t")
	f.Fuzz(func(t *testing.T, line, env string) {
		if strings.ContainsRune(env, 0) {
			return
		}
		plainEnvironment(t)
		t.Setenv("MCP_TETHER_NO_ANCHOR", env)
		if err := compare(strings.Split(line, "|"), env); err != nil {
			t.Fatalf("%q with %q in the environment: %v", line, env, err)
		}
	})
}
