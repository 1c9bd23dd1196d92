package display

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0K", 1023: "0K", 1024: "1K", 1<<20 - 1: "1023K", 1 << 20: "1M", 1<<30 - 1: "1024M", 1 << 30: "1.0G", 82 << 30: "82.0G",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for seconds, want := range map[int64]string{
		0: "0s", 59: "59s", 60: "1m00s", 3599: "59m59s", 3600: "1h00m", 3725: "1h02m", 47*3600 + 59: "47h00m", 48 * 3600: "2d", 100 * 86400: "100d",
	} {
		if got := Age(seconds); got != want {
			t.Errorf("%d: %s, want %s", seconds, got, want)
		}
	}
}

// FuzzJSON compares a text that is printed as JSON with encoding/json, which decodes it to the same. No character of it steers a
// terminal.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "plain<>&", "a\x1b\u202e\u009b\r\u2028\U000e0001é\"", `\u202e\\u202e`, "\xff\u200b", "\x7f\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b strings.Builder
		if err := JSON(&b, []string{s}); err != nil {
			t.Fatal(err)
		}
		if at := strings.IndexFunc(b.String(), func(c rune) bool { return c != '\n' && steers(c) && c != utf8.RuneError }); at >= 0 {
			t.Fatalf("%q is printed as %q", s, b.String())
		}
		var back []string
		// What is not UTF-8 is decoded as U+FFFD.
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil || len(back) != 1 || back[0] != string([]rune(s)) {
			t.Fatalf("%q is printed as %q, which is %q, %v", s, b.String(), back, err)
		}
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[2J", "\u009b", "\x9b", "\xff", "é", "\n\t\x7f", "a\u202eb", "a\u2066b", "\u2028", "\u200b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := Text(s)
		if !utf8.ValidString(out) || utf8.RuneCountInString(out) != utf8.RuneCountInString(s) {
			t.Fatalf("%q became %q", s, out)
		}
		for _, c := range out {
			if steers(c) {
				t.Fatalf("%q in %q", c, out)
			}
		}
		if clean := utf8.ValidString(s) && strings.IndexFunc(s, steers) < 0; clean && out != s {
			t.Fatalf("%q became %q", s, out)
		}
	})
}

// steers reports whether a character does something to a terminal, or to the order of text.
func steers(c rune) bool {
	return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' || c >= '\u202a' && c <= '\u202e' || c >= '\u2066' && c <= '\u2069' ||
		unicode.Is(unicode.Cf, c) || c == utf8.RuneError
}

// A line break in a name does not begin a line of ours.
func TestError(t *testing.T) {
	evil := errors.New("a\nmcp-tether: \x1b[2Jall is well")
	for _, c := range []struct {
		err  error
		want string
	}{
		{evil, "a?mcp-tether: ?[2Jall is well"},
		{errors.Join(evil, errors.New("b")), "a?mcp-tether: ?[2Jall is well\nb"},
		{fmt.Errorf("%w and %w", evil, errors.New("b\nc")), "a?mcp-tether: ?[2Jall is well and b?c"},
		{fmt.Errorf("over: %w", errors.Join(evil, evil)), "over: a?mcp-tether: ?[2Jall is well?a?mcp-tether: ?[2Jall is well"},
	} {
		if got := Error(c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
