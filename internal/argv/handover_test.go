package argv

import (
	"reflect"
	"testing"

	"mcp-tether/internal/proc"
)

func TestHandoverRoundTrip(t *testing.T) {
	for _, h := range []Handover{
		{ID: "0123456789abcdef", ParentFD: -1, Mailbox: -1},
		{ID: "0123456789abcdef", Anchor: 1 << 22, Parent: 7, ParentFD: 3, Mailbox: 5, Terminal: true, Group: 9},
		{ID: "x", Foreign: []proc.ID{{PID: 1, Start: 1<<64 - 1}, {PID: 2, Start: 0}}},
	} {
		if got, err := parseHandover(h.String()); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%q: %+v, %v; want %+v", h, got, err, h)
		}
	}
}

func TestParseHandoverRefuses(t *testing.T) {
	for _, s := range []string{
		"", "x", "x,1,2,3,0", "x,1,2,3,0,0,0", "x,a,2,3,0,0,0,", "x,1,,3,0,0,0,", "x,1,2,99999999999999999999,0,0,0,", "x,1,2,3,0,y,0,",
		"x,1,2,3,0,0,0,5", "x,1,2,3,0,0,0,0:1", "x,1,2,3,0,0,0,a:b c:d", "x,1,2,3,0,0,0,,", "run,--name,x,--,srv,y,z,a",
	} {
		if h, err := parseHandover(s); err == nil {
			t.Errorf("%q was taken for %+v", s, h)
		}
	}
}

func FuzzParseHandover(f *testing.F) {
	f.Add(Handover{ID: "0123456789abcdef", Anchor: 2, ParentFD: -1, Foreign: []proc.ID{{PID: 1, Start: 2}}}.String())
	f.Add("x,1,2,3,4,1,5,")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHandover(s)
		if err != nil {
			return
		}
		if again, err := parseHandover(h.String()); err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%q: %+v, then %+v, %v", s, h, again, err)
		}
	})
}

// Supervisor and remover are started by the same kind of command line, and each knows which it is. Both look after the session.
func TestSupervisorArgs(t *testing.T) {
	for _, removes := range []bool{false, true} {
		args := []string{"mcp-tether", "run", "--name", "x", "--", "server"}
		want := Handover{ID: "0123456789abcdef", ParentFD: -1, Mailbox: 5, Removes: removes}
		line := SupervisorArgs(args, want)
		own, got, ok, err := SplitSupervisorArgs(line)
		if !ok || err != nil || !reflect.DeepEqual(own, args) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, %+v, %v, %v", line, own, got, ok, err)
		}
		if id := SupervisedID(line); id != want.ID {
			t.Errorf("%q looks after %q", line, id)
		}
		if _, _, ok, err := SplitSupervisorArgs(line[:3]); !ok || err == nil {
			t.Errorf("%q: %v, %v", line[:3], ok, err)
		}
	}
	for _, line := range [][]string{{"mcp-tether"}, {"mcp-tether", "run"}, {"mcp-tether", "__sweep", "x,1"}} {
		if _, _, ok, _ := SplitSupervisorArgs(line); ok || SupervisedID(line) != "" {
			t.Errorf("%q is taken for a supervisor's", line)
		}
	}
}
