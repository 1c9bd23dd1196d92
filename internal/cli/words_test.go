package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A shell is asked for the same words.
func TestSplitWords(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "  ", "a", " a  b\tc ", `--name 'a b' c`, `"a b"c'd e'`, `''`, `a "" b`, `a\ b c`, `\\ \" \'`, `"a\"b\\c\d"`, `'a\b'`, `a\b`, `"'" '"'`,
	} {
		out, err := exec.Command("sh", "-c", `for word in `+line+`; do printf '%s\0' "$word"; done`).Output()
		if err != nil {
			t.Fatalf("sh with %q: %v", line, err)
		}
		want := strings.Split(string(out), "\x00")
		want = want[:len(want)-1]
		if got, err := splitWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; a shell has %q", line, got, err, want)
		}
	}
	for _, line := range []string{`'a`, `"a`, `a\`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}
