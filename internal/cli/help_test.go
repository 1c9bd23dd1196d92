package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// Help fits a terminal of 80 columns, and so do man pages, which move the text by 7.
func TestHelpFits(t *testing.T) {
	for _, c := range app([]string{"mcp-tether"}, io.Discard, nil).Commands {
		var b strings.Builder
		printHelp(&b, cli.CommandHelpTemplate, c)
		for line := range strings.Lines(b.String()) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > helpWidth {
				t.Errorf("help %s: %s", c.Name, line)
			}
		}
		for line := range strings.Lines(c.Description) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > helpWidth-7 {
				t.Errorf("man page of %s: %s", c.Name, line)
			}
		}
	}
}

func TestFold(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for in, want := range map[string]string{
		"short":                             "short",
		"   --flag X [ --flag X ]  " + long: "   --flag X\n" + strings.Repeat(" ", 10) + strings.TrimRight(strings.Repeat("word ", 14), " ") + "\n" + strings.Repeat(" ", 10) + strings.Repeat("word ", 6),
		"   word  " + long:                  "   word  " + strings.TrimRight(strings.Repeat("word ", 14), " ") + "\n" + strings.Repeat(" ", 9) + strings.Repeat("word ", 6),
		strings.Repeat("x", 100):            strings.Repeat("x", 100),
	} {
		if got := fold(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"run", "reap", "ps", "stop", "wrap", "unwrap"}
	for word, want := range map[string]string{
		"rnu": "run", "warp": "wrap", "unwarp": "unwrap", "stp": "stop", "reep": "reap", "pss": "ps", "frobnicate": "", "": "", "install": "",
	} {
		if got := didYouMean(word, known); got != "" && want == "" || want != "" && got != "; did you mean "+want+"?" {
			t.Errorf("%s: %q", word, got)
		}
	}
	for line, want := range map[string]string{"stp": "did you mean stop?", "stop --al": "did you mean --all?", "help wrpa": "did you mean wrap?", "wrap codx": "codx, nor a file of that name; did you mean codex?",
		"wrap frobnicate": "known are codex, ", "stop --name": "flag needs an argument: --name (see"} {
		args := append([]string{"mcp-tether"}, strings.Fields(line)...)
		if err := app(args, io.Discard, nil).Run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
