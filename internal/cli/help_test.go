package cli

import (
	"io"
	"strings"
	"testing"
)

// Help fits a terminal of 80 columns, and so do man pages, which move the text by 7.
func TestHelpFits(t *testing.T) {
	for _, c := range theApp().Commands {
		var b strings.Builder
		printHelp(&b, "", c)
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
	long := strings.TrimSpace(strings.Repeat("word ", 20))
	for in, want := range map[string]string{
		"short":                  "  short",
		long:                     "  " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n  " + strings.TrimSpace(strings.Repeat("word ", 5)),
		strings.Repeat("x", 100): "  " + strings.Repeat("x", 100),
	} {
		if got := fold(in, 2); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Every command is in the overview, and so is where to read on.
func TestOverview(t *testing.T) {
	var b strings.Builder
	a := theApp()
	printHelp(&b, "", a)
	for _, c := range a.VisibleCommands() {
		if strings.Count(b.String(), "\n   "+c.Name+" ") != 1 {
			t.Errorf("%s is missing in\n%s", c.Name, b.String())
		}
	}
	for _, want := range []string{"Start here:", "A gateway is", "A session is", "Documentation: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	for line := range strings.Lines(b.String()) {
		if len(strings.TrimSuffix(line, "\n")) > helpWidth {
			t.Errorf("too long: %s", line)
		}
	}
}

func TestSuggestions(t *testing.T) {
	for line, want := range map[string]string{
		"stp": `did you mean "stop"?`, "stop --al": "did you mean --all?", "help wrpa": `did you mean "wrap"?`, "wrap codx": "nor a file of that name; known are codex, ",
		"stop --name": "flag needs an argument: --name (see", "wrap codex --yes": "come before CLIENT", "reap --forget 1 --kill": "give one of them",
	} {
		args := append([]string{"mcp-tether"}, strings.Fields(line)...)
		if err := app(io.Discard, commands(false, nil)).Run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
