package proc

import "testing"

const someBoot = "0d3b2c1a-5e4f-4a6b-8c7d-9e0f1a2b3c4d"

func TestGlobalIDRoundTrip(t *testing.T) {
	for _, g := range []GlobalID{
		{ID{1, 0}, Host{someBoot, 4026531836}},
		{ID{4194304, 1<<64 - 1}, Host{someBoot, 1<<64 - 1}},
		{ID{2, 3}, Host{}},
	} {
		if got, err := ParseGlobalID(g.String()); err != nil || got != g {
			t.Errorf("%s: %+v, %v; want %+v", g, got, err, g)
		}
	}
}

func TestParseGlobalIDRefuses(t *testing.T) {
	for _, s := range []string{
		"", ":", ":::", "1:2:3", "1:2:boot:3:4", "0:2:boot:3", "-1:2:boot:3", "x:2:boot:3", "1:-2:boot:3", "1:2:boot:-3",
		"1:2:boot:", "1::boot:3", ":2:boot:3", "1:18446744073709551616:boot:3", "99999999999999999999:2:boot:3",
		" 1:2:boot:3", "1:2:boot:3\n", "1 :2:boot:3", "0x1:2:boot:3", "1.0:2:boot:3",
	} {
		if g, err := ParseGlobalID(s); err == nil {
			t.Errorf("%q was taken for %+v", s, g)
		}
	}
}

// FuzzParseGlobalID compares an id with its round trip through text. The mark comes out of the environment of any process:
// whatever is accepted must mean one thing.
func FuzzParseGlobalID(f *testing.F) {
	f.Add("1:2:" + someBoot + ":4026531836")
	f.Add("1:2:3")
	f.Add("+1:2::0")
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGlobalID(s)
		if err != nil {
			return
		}
		if again, err := ParseGlobalID(g.String()); err != nil || again != g || g.PID <= 0 {
			t.Fatalf("%q: %+v, then %+v, %v", s, g, again, err)
		}
	})
}
