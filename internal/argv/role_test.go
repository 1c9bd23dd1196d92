package argv

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"mcp-tether/internal/proc"
)

func TestHostArgs(t *testing.T) {
	words := []string{"--share", "--", "server", "a,b"}
	for _, want := range []Host{
		{Key: "k", Lock: 3, Listener: 4, GatewayFD: -1},
		{Key: "k-2", Lock: 3, Listener: 4, Gateway: proc.ID{PID: 7, Start: 1 << 62}, GatewayFD: 5, Launches: true},
	} {
		line := HostArgs("tether", want, words)
		own, got, ok, err := SplitHostArgs(line)
		if !ok || err != nil || !reflect.DeepEqual(got, want) || !slices.Equal(own, append([]string{"tether", "run"}, words...)) {
			t.Errorf("%q: %q, %+v, %v, %v", line, own, got, ok, err)
		}
		if !IsHost(line) {
			t.Errorf("%q is not taken for a host's", line)
		}
	}
}

// A user may type a role, and every process choose its command line.
func TestRolesRefuse(t *testing.T) {
	for _, w := range []string{"", "x", "3", `{"Lock":"a"}`, `{"Gateway":{"start":-1}}`, `{},`} {
		if _, _, ok, err := SplitHostArgs([]string{"tether", roleHost, w, "run"}); !ok || !errors.Is(err, errRole) {
			t.Errorf("%q: %t, %v", w, ok, err)
		}
	}
	for _, short := range [][]string{{"tether", roleHost}, {"tether", roleHost, "{}"}} {
		if _, _, ok, err := SplitHostArgs(short); !ok || !errors.Is(err, errRole) {
			t.Errorf("%q: %t, %v", short, ok, err)
		}
	}
	for _, other := range [][]string{{"tether"}, {"tether", "run", "x", "y"}, {"tether", roleSweep, "1"}} {
		if _, _, ok, _ := SplitHostArgs(other); ok || IsHost(other) {
			t.Errorf("%q is taken for a host's", other)
		}
	}
}

// FuzzRoles compares what is read of a word with its round trip through writing and reading.
func FuzzRoles(f *testing.F) {
	f.Add(HostArgs("p", Host{Key: "k", Gateway: proc.ID{PID: 7, Start: 8}, GatewayFD: 5}, nil)[2])
	f.Fuzz(func(t *testing.T, s string) {
		if _, h, _, err := SplitHostArgs([]string{"p", roleHost, s, "run"}); err == nil {
			if _, again, _, err := SplitHostArgs(HostArgs("p", h, nil)); err != nil || again != h {
				t.Fatalf("%q: %+v, then %+v, %v", s, h, again, err)
			}
		}
	})
}

func TestDelegatedArgs(t *testing.T) {
	own, uid, ok, err := SplitDelegatedArgs(delegatedArgs("p", 1<<32-2, []string{"reap", "--json"}))
	if !ok || err != nil || uid != 1<<32-2 || !reflect.DeepEqual(own, []string{"p", "reap", "--json"}) {
		t.Errorf("%q, %d, %v, %v", own, uid, ok, err)
	}
	for _, args := range [][]string{
		{"p", roleDelegated}, {"p", roleDelegated, "1"}, {"p", roleDelegated, "1,2,3", "reap"}, {"p", roleDelegated, "-1", "reap"}, {"p", roleDelegated, "reap", "--json"},
	} {
		if _, _, ok, err := SplitDelegatedArgs(args); !ok || err == nil {
			t.Errorf("%q: %v, %v", args, ok, err)
		}
	}
	if _, _, ok, _ := SplitDelegatedArgs([]string{"p", "reap", "--json"}); ok {
		t.Error("a person's words are taken for ours")
	}
}
