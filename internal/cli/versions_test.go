package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tested are the programs that the tests run and whose versions pages state: how a page names one, the file that holds
// the version, and the name there.
var tested = []struct{ name, lock, module string }{
	{"Codex", "e2e/gateways/package-lock.json", "@openai/codex"},
	{"Claude Code", "e2e/gateways/package-lock.json", "@anthropic-ai/claude-code"},
	{"Gemini CLI", "e2e/gateways/package-lock.json", "@google/gemini-cli"},
	{"sandbox-runtime", "e2e/gateways/package-lock.json", "@anthropic-ai/sandbox-runtime"},
	{"OpenClaw", "e2e/openclaw/package-lock.json", "openclaw"},
	{"`@modelcontextprotocol/sdk`", "e2e/npm/package-lock.json", "@modelcontextprotocol/sdk"},
	{"`@modelcontextprotocol/client`", "e2e/npm/package-lock.json", "@modelcontextprotocol/client"},
}

// clientPages are the pages of clients, and what each says about what was run.
var clientPages = map[string][]string{
	"codex": {"Codex"}, "claude-code": {"Claude Code"}, "gemini-cli": {"Gemini CLI"}, "openclaw": {"OpenClaw"},
	"sdk":            {"`@modelcontextprotocol/sdk`", "`@modelcontextprotocol/client`", "not run"},
	"claude-desktop": {"from its documentation, not run"}, "cursor": {"from their documentation, not run"},
}

// A page that states the version of such a program states the one that is run, or the beginning of it (0.169 of 0.169.0).
func TestPagesNameTestedVersions(t *testing.T) {
	inRoot(t)
	texts := map[string]string{}
	names, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimSuffix(filepath.Base(name), ".md")] = string(b)
	}
	for _, p := range tested {
		lock, err := os.ReadFile(p.lock)
		if err != nil {
			t.Fatal(err)
		}
		locked := regexp.MustCompile(`[/\s]` + p.module + `(?:": \{\s+"version": "| v)([0-9.]+)`).FindSubmatch(lock)
		if locked == nil {
			t.Fatalf("%s has no version of %s", p.lock, p.module)
		}
		for page, text := range texts {
			stated := statedVersions(text, p.name)
			if stated == nil && slices.Contains(clientPages[page], p.name) {
				t.Errorf("%s.md does not state the version of %s", page, p.name)
			}
			for _, v := range stated {
				if !strings.HasPrefix(string(locked[1])+".", v+".") {
					t.Errorf("%s.md: %s %s; tests run %s", page, p.name, v, locked[1])
				}
			}
		}
	}
	for page, said := range clientPages {
		for _, s := range said {
			if !strings.Contains(strings.Join(strings.Fields(texts[page]), " "), s) {
				t.Errorf("%s.md does not say %q", page, s)
			}
		}
	}
}

func TestStatedVersions(t *testing.T) {
	for text, want := range map[string][]string{
		"Codex 0.169 (`codex exec`), Codex\n0.122.0.": {"0.169", "0.122.0"}, "with Codex.": nil, "Codex 2 and 2.1": nil, "`x` 1.2": nil,
	} {
		if got := statedVersions(text, "Codex"); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// statedVersions are the versions, of at least two numbers, that a text states behind a name.
func statedVersions(text, name string) (all []string) {
	for _, m := range regexp.MustCompile(regexp.QuoteMeta(name)+`\s+([0-9]+(?:\.[0-9]+)+)`).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
