package teardown

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "", false}, {"*", "", true}, {"*", "a/b c", true}, {"?", "", false},
		{"?", "a", true}, {"?", "ab", false}, {"??", "ab", true}, {"?", "é", false}, {"??", "é", true},
		{"chrom*", "chromium", true}, {"chrom*", "chrom", true}, {"chrom*", "achrom", false}, {"*ium", "chromium", true},
		{"/usr/*/tool", "/usr/local/bin/tool", true}, {"*a*a*", "aa", true}, {"*a*a*", "a", false}, {"a*b*c", "abbc", true},
		{"a*b*c", "acb", false}, {"***", "", true}, {"a**", "a", true}, {"*?", "", false}, {"*?", "x", true},
		{"[a]", "a", false}, {"[a]", "[a]", true}, {`\*`, "*", false}, {`\*`, `\x`, true}, {"*ab", "aab", true},
		{"*aab", "aaab", true}, {"a?c", "a\nc", true}, {"A", "a", false},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.name, got)
		}
	}
}

// A pattern of many stars takes no exponential time: with the plain recursive matcher this would not end.
func TestMatchManyStars(t *testing.T) {
	if Match(strings.Repeat("*a", 2000)+"b", strings.Repeat("a", 4000)) {
		t.Error("matched")
	}
}

// plainMatch is the definition.
func plainMatch(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	if pattern[0] == '*' {
		return plainMatch(pattern[1:], name) || name != "" && plainMatch(pattern, name[1:])
	}
	return name != "" && (pattern[0] == '?' || pattern[0] == name[0]) && plainMatch(pattern[1:], name[1:])
}

// FuzzMatch compares the match of a pattern with its definition, which takes exponential time.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?c*", "axxbycz")
	f.Add("**", "")
	f.Add("*a*a*a", "aaaa")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		// The definition is exponential.
		pattern, name = pattern[:min(len(pattern), 12)], name[:min(len(name), 24)]
		if got, want := Match(pattern, name), plainMatch(pattern, name); got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, name, got, want)
		}
	})
}
