package share

import (
	"slices"
	"testing"
)

// Whatever tells two sessions apart tells their keys apart, and the digest of that part.
func TestKey(t *testing.T) {
	base := func() []part {
		return []part{{"command", []string{"server", "a b"}}, {"environment", []string{"A=1", "B=2"}}}
	}
	secret := [16]byte{1}
	seen := map[string]string{key(secret, base()): "base"}
	for what, change := range map[string]func(p []part){
		"a moved boundary":       func(p []part) { p[1].words = []string{"A=1B=2"} },
		"a value":                func(p []part) { p[1].words = []string{"A=1", "B=3"} },
		"one more":               func(p []part) { p[1].words = append(p[1].words, "C=") },
		"an argument split":      func(p []part) { p[0].words = []string{"server", "a", "b"} },
		"a word in another part": func(p []part) { p[0].words, p[1].words = []string{"server", "a b", "A=1"}, []string{"B=2"} },
	} {
		p := base()
		change(p)
		if k := key(secret, p); seen[k] != "" {
			t.Errorf("%s: the key of %s", what, seen[k])
		} else {
			seen[k] = what
		}
		if digests(secret, p)["environment"] == digests(secret, base())["environment"] && what != "an argument split" {
			t.Errorf("%s: the digest tells nothing", what)
		}
	}
	if k := key([16]byte{2}, base()); seen[k] != "" {
		t.Error("another secret gives the same key")
	}
}

// The order of the environment does not count, nor what a shell notes, nor what the user leaves out.
func TestVariables(t *testing.T) {
	got := Environment([]string{"B=2", "PWD=/d", "_=/bin/x", "A=1", "SHLVL=3", "OLDPWD=/", "RUN=7"}, "RUN")
	if !slices.Equal(got, []string{"A=1", "B=2"}) {
		t.Errorf("%q", got)
	}
}
