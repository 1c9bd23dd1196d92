package argv

import (
	"reflect"
	"testing"

	"mcp-tether/proc"
)

func TestHandoverRoundTrip(t *testing.T) {
	for _, h := range []Handover{
		{ID: "0123456789abcdef", ParentFD: -1},
		{ID: "0123456789abcdef", Anchor: 1 << 22, Parent: 7, ParentFD: 3, Terminal: true},
		{ID: "x", Foreign: []proc.ID{{PID: 1, Start: 1<<64 - 1}, {PID: 2, Start: 0}}},
		{ID: "x", Restore: []string{"GOMAXPROCS=1,2 3:4", "GOMAXPROCS="}},
		{ID: "x", Foreign: []proc.ID{{PID: 5, Start: 6}}, Restore: []string{"A=\xff\n,"}},
	} {
		if got, err := ParseHandover(h.String()); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%q: %+v, %v; want %+v", h, got, err, h)
		}
	}
}

func TestParseHandoverRefuses(t *testing.T) {
	for _, s := range []string{
		"", "x", "x,1,2,3,0", "x,1,2,3,0,", "x,a,2,3,0,,", "x,1,,3,0,,", "x,1,2,99999999999999999999,0,,", "x,1,2,3,y,,",
		"x,1,2,3,0,5,", "x,1,2,3,0,0:1,", "x,1,2,3,0,a:b c:d,", "run,--name,x,--,srv,y,z",
	} {
		if h, err := ParseHandover(s); err == nil {
			t.Errorf("%q was taken for %+v", s, h)
		}
	}
}

func FuzzParseHandover(f *testing.F) {
	f.Add(Handover{ID: "0123456789abcdef", Anchor: 2, ParentFD: -1, Foreign: []proc.ID{{PID: 1, Start: 2}}, Restore: []string{"A=b"}}.String())
	f.Add("x,1,2,3,1,,")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := ParseHandover(s)
		if err != nil {
			return
		}
		if again, err := ParseHandover(h.String()); err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%q: %+v, then %+v, %v", s, h, again, err)
		}
	})
}
