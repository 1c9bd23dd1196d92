package cli

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
	"mcp-tether/supervise"
)

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

// Who reads a command line without the parser knows every flag that takes no value, and no other.
func TestSwitchesAreKnown(t *testing.T) {
	for _, f := range runFlags() {
		_, isSwitch := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			// After a switch the next word is the command; after any other flag it is the flag's value.
			if got := argv.CommandAt([]string{"--" + name, "srv"}) == 1; got != isSwitch {
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
