package cli

import (
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/session"
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

// read are the settings that a command line of run comes to.
func read(t *testing.T, flags ...string) settings {
	t.Helper()
	s, ok, err := settings{}.parse(append(append([]string{"mcp-tether", "run"}, flags...), "--", "srv"), io.Discard)
	if err != nil || !ok {
		t.Errorf("%q: %v, %v", flags, ok, err)
	}
	if len(s.session.Keep) > 0 {
		t.Errorf("keep %q", s.session.Keep)
	}
	s.session.HasDead, s.session.Keep, s.args, s.front.Words, s.share.Words = nil, nil, nil, nil, nil
	return s
}

// An empty variable, or an empty pattern, says nothing.
func TestEmptyIsUnset(t *testing.T) {
	plainEnvironment(t)
	want := read(t)
	for _, f := range argv.Run {
		t.Setenv(f.Env, "")
		if got := read(t); !reflect.DeepEqual(got, want) {
			t.Errorf("empty %s: %+v, want %+v", f.Env, got, want)
		}
	}
	if got := read(t, "--keep="); !reflect.DeepEqual(got, want) {
		t.Errorf("an empty pattern: %+v", got)
	}
	// What a flag says is meant.
	if _, _, err := (settings{}).parse([]string{"mcp-tether", "run", "--cgroup=", "--", "srv"}, io.Discard); err == nil {
		t.Error("an empty mode of the cgroup")
	}
}

// The table's defaults are those of a session.
func TestDefaults(t *testing.T) {
	plainEnvironment(t)
	got, want := read(t).session, supervise.Defaults()
	want.Command, want.History = []string{"srv"}, true
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A choice that there is not, and a duration that no sum can hold, are refused. Flags about sharing are judged also without --share, but
// not in a shared server's own session, where they may be variables that flags have won over.
func TestBadValues(t *testing.T) {
	plainEnvironment(t)
	const longest = "87600h"
	o := read(t, "--eof-grace="+longest, "--term-grace="+longest).session
	if end := o.LongestEnd(); end < 0 {
		t.Errorf("the longest end is %v", end)
	}
	for _, f := range argv.Run {
		var bad []string
		switch {
		case f.Values != nil:
			bad = []string{"", "maybe"}
		case f.Kind == argv.Duration:
			bad = []string{"-1s", longest + "1ns", "500000h", "soon"}
		case f.Kind == argv.Number:
			bad = []string{"-1", "x"}
		}
		for _, value := range bad {
			_, ok, err := settings{}.parse([]string{"mcp-tether", "run", "--" + f.Name + "=" + value, "--", "srv"}, io.Discard)
			if ok || err == nil || !strings.Contains(err.Error(), f.Name) {
				t.Errorf("--%s=%s: %v", f.Name, value, err)
			}
		}
	}
	t.Setenv("MCP_TETHER_SHARE_SCOPE", "all")
	if _, _, err := (settings{}).parse([]string{"mcp-tether", "run", "srv"}, io.Discard); err == nil {
		t.Error("a scope that there is not")
	}
	t.Setenv(session.EnvShared, "x")
	read(t)
}

// Flags for wrap are judged as they stand, whatever the environment says.
func TestFlagsOfRun(t *testing.T) {
	plainEnvironment(t)
	t.Setenv("MCP_TETHER_CGROUP", "nonsense")
	for line, want := range map[string]string{
		"": "", "--hibernate 10m --name a": "", "--lazy": "", "--nope": "no such flag", "--hibernate soon": "duration", "--name": "--name has no value", "--lazy x": "x is no flag",
		"--help": "starts no server", "--share-scope all": "none of gateway, user",
	} {
		got, err := flagsOfRun(strings.Fields(line))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && !slices.Equal(got, strings.Fields(line)) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	if got, err := flagsOfRun(nil); got != nil || err != nil {
		t.Errorf("none: %q, %v", got, err)
	}
}

// A front reads along: what costs nothing then is on, unless it was switched off.
func TestOnBehindAFront(t *testing.T) {
	plainEnvironment(t)
	if s := read(t); !s.front.Guard || !s.front.KeepStderr || !s.share.Guard || !s.share.KeepStderr {
		t.Errorf("%+v", s.front)
	}
	if s := read(t, "--stdout-guard=false", "--keep-stderr=false"); s.front.Guard || s.front.KeepStderr || s.share.Guard || s.share.KeepStderr {
		t.Errorf("off: %+v", s.front)
	}
}
