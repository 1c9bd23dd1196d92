package argv

import (
	"slices"
	"strings"
	"testing"
)

func TestWantsShare(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "--share -- x": true, "-share x": true, "--share=true -- x": true, "--share=0 -- x": false, "-- x --share": false,
		"x --share": false, "--name --share -- x": false, "--name=a --share -- x": true, "--share --help": false, "-h --share": false,
		"--share-scope user -- x": false, "--share-scope=user --share -- x": true, "--no-history --share x": true,
	} {
		if _, got := Wants(strings.Fields(line), func(string) string { return "" }); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	for line, want := range map[string]bool{"-- x": true, "--share=false -- x": false} {
		if _, got := Wants(strings.Fields(line), func(string) string { return "1" }); got != want {
			t.Errorf("%q: the variable is not asked, or wins over the flag", line)
		}
	}
}

func TestShareScope(t *testing.T) {
	for line, want := range map[string]string{
		"--share -- x": "env", "--share-scope user -- x": "user", "--share-scope=gateway x": "gateway", "-- x --share-scope=user": "env",
		"--name --share-scope=user -- x": "env",
	} {
		if got := ShareScope(strings.Fields(line), "env"); got != want {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestShareIgnored(t *testing.T) {
	for line, want := range map[string][]string{
		"--share -- x": {"A", "B"}, "--share-ignore-env C --share-ignore-env=D,E x": {"C", "D", "E"}, "-- x --share-ignore-env=C": {"A", "B"},
	} {
		if got := ShareIgnored(strings.Fields(line), "A,B"); !slices.Equal(got, want) {
			t.Errorf("%q: %q", line, got)
		}
	}
}

// The session behind a host or a front has the command line of its sessions, without the flags that want one of these, whatever the
// environment says.
func TestSessionArgs(t *testing.T) {
	for line, want := range map[string]string{
		"--share -- x y": "-- x y",
		"--share --name a --share-linger 5s -- x":        "--name a -- x",
		"--share-linger=3s --share --no-history -- x --": "--no-history -- x --",
		"--name --share --share x --share y":             "--name --share -- x --share y",
		"--share --share-scope user --hibernate=1h x":    "-- x",
		"--on-crash=restart --keep a* x --hibernate=1":   "--keep a* -- x --hibernate=1",
		"--lazy x --lazy": "-- x --lazy",
		"--stdout-guard --keep-stderr=1 --name a x": "--name a -- x",
	} {
		got := SessionArgs("tether", strings.Fields(line))
		if !slices.Equal(got, append([]string{"tether", "__session", "--share=false", "--lazy=false", "--hibernate=0", "--on-crash=end", "--restart-on=", "--stdout-guard=false", "--keep-stderr=false"}, strings.Fields(want)...)) {
			t.Errorf("%q gives %q", line, got)
		}
		if front, share := Wants(got[2:], func(name string) string {
			return map[string]string{envShare: "1", "MCP_TETHER_HIBERNATE": "10m", "MCP_TETHER_ON_CRASH": Restart, "MCP_TETHER_LAZY": "1", "MCP_TETHER_STDOUT_GUARD": "1", "MCP_TETHER_KEEP_STDERR": "1"}[name]
		}); front || share {
			t.Errorf("%q: the session of the server shares, or wants a front", line)
		}
	}
}
