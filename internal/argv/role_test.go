package argv

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"mcp-tether/internal/proc"
)

// Supervisor and remover are started by the same kind of command line, and each knows which it is. Both look after the session.
func TestSupervisorArgs(t *testing.T) {
	args := []string{"mcp-tether", "run", "--name", "x", "--", "server"}
	for _, want := range []Handover{
		{ID: "0123456789abcdef", ParentFD: -1, Mailbox: -1},
		{ID: "0123456789abcdef", ParentFD: -1, Mailbox: 5, Removes: true},
		{ID: "0123456789abcdef", Anchor: 1 << 22, Parent: 7, ParentFD: 3, Mailbox: 5, Terminal: true, Group: 9},
		{ID: "x", Foreign: []proc.ID{{PID: 1, Start: 1<<64 - 1}, {PID: 2, Start: 0}}},
	} {
		line := SupervisorArgs(args, want)
		own, got, ok, err := SplitSupervisorArgs(line)
		if !ok || err != nil || !reflect.DeepEqual(own, args) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, %+v, %v, %v", line, own, got, ok, err)
		}
		if id := SupervisedID(line); id != want.ID {
			t.Errorf("%q looks after %q", line, id)
		}
	}
}

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
		if !IsHost(line) || SupervisedID(line) != "" {
			t.Errorf("%q is not taken for a host's", line)
		}
	}
}

// A user may type a role, and every process choose its command line.
func TestRolesRefuse(t *testing.T) {
	for role, words := range map[string][]string{
		roleSupervise: {
			"", "x", "x,", "x,1", "x,{", `x,{"Anchor":"1"}`, `x,{"Parent":99999999999999999999}`, `x,{"Terminal":1}`, `x,{"Foreign":5}`, `x,{},`,
			"run,--name,x,--,srv,y,z,a",
		},
		roleHost: {"", "x", "k,3", `k,{"Lock":"a"}`, `k,{"Gateway":{"start":-1}}`},
	} {
		split := func(args []string) (ok bool, err error) {
			if role == roleHost {
				_, _, ok, err = SplitHostArgs(args)
			} else {
				_, _, ok, err = SplitSupervisorArgs(args)
			}
			return ok, err
		}
		for _, w := range words {
			if ok, err := split([]string{"tether", role, w, "run"}); !ok || !errors.Is(err, errRole) {
				t.Errorf("%s %q: %t, %v", role, w, ok, err)
			}
		}
		for _, short := range [][]string{{"tether", role}, {"tether", role, "x,{}"}} {
			if ok, err := split(short); !ok || !errors.Is(err, errRole) {
				t.Errorf("%q: %t, %v", short, ok, err)
			}
		}
		for _, other := range [][]string{{"tether"}, {"tether", "run", "x", "y"}, {"tether", roleSweep, "x,1"}} {
			if ok, _ := split(other); ok || SupervisedID(other) != "" {
				t.Errorf("%q is taken for one of %s", other, role)
			}
		}
	}
}

// FuzzRoles compares what is read of a word with its round trip through writing and reading.
func FuzzRoles(f *testing.F) {
	f.Add(SupervisorArgs([]string{"p"}, Handover{ID: "0123456789abcdef", Anchor: 2, ParentFD: -1, Foreign: []proc.ID{{PID: 1, Start: 2}}})[2])
	f.Add(HostArgs("p", Host{Key: "k", Gateway: proc.ID{PID: 7, Start: 8}, GatewayFD: 5}, nil)[2])
	f.Add(`x,{"Foreign":[]}`)
	f.Fuzz(func(t *testing.T, s string) {
		if _, h, _, err := SplitSupervisorArgs([]string{"p", roleSupervise, s, "run"}); err == nil {
			if _, again, _, err := SplitSupervisorArgs(SupervisorArgs([]string{"p", "run"}, h)); err != nil || !reflect.DeepEqual(again, h) {
				t.Fatalf("%q: %+v, then %+v, %v", s, h, again, err)
			}
		}
		if _, h, _, err := SplitHostArgs([]string{"p", roleHost, s, "run"}); err == nil {
			if _, again, _, err := SplitHostArgs(HostArgs("p", h, nil)); err != nil || again != h {
				t.Fatalf("%q: %+v, then %+v, %v", s, h, again, err)
			}
		}
	})
}
