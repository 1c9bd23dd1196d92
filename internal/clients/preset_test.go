package clients

import (
	"strings"
	"testing"
)

func TestPreset(t *testing.T) {
	codex, err := byName("codex")
	if err != nil {
		t.Fatal(err)
	}
	claude, err := byName("claude")
	if err != nil {
		t.Fatal(err)
	}
	const in = `{"mcpServers":{"bare":{"command":"srv"},"web":{"command":"npx","args":["@Playwright/mcp"]},"wrapped":{"command":"mcp-tether","args":["run","--","srv"]},` +
		`"wrapped web":{"command":"/x/mcp-tether","args":["run","puppeteer"]},"flags":{"command":"mcp-tether","args":["run","--keep","x","srv"]}}}`
	for name, c := range map[string]struct {
		w     Wrapping
		sleep string // the servers that sleep then
	}{
		"a client that keeps them":   {Wrapping{Preset: codex}, "bare,wrapped"},
		"a client that does not":     {Wrapping{Preset: claude}, ""},
		"no client":                  {Wrapping{}, ""},
		"flags are said":             {Wrapping{Preset: codex, Flags: []string{"--hibernate", "1s"}}, "bare,web,wrapped,wrapped web,flags"},
		"no flags are said":          {Wrapping{Preset: codex, Flags: []string{}}, ""},
		"unwrapped":                  {Wrapping{Preset: codex, Unwrap: true}, ""},
		"with the path of a program": {Wrapping{Preset: codex, Path: "/p/mcp-tether"}, "bare,wrapped"},
	} {
		r, err := Rewrite([]byte(in), JSON, c.w, every)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var sleep, lost []string
		for _, ch := range r.Changes {
			if entry := lookupText(t, r.Text, ch.Keys); strings.Contains(entry, "--hibernate") {
				sleep = append(sleep, ch.Name)
			}
			if ch.Lost != "" {
				lost = append(lost, ch.Name)
			}
		}
		if got := strings.Join(sleep, ","); got != c.sleep {
			t.Errorf("%s: asleep %q, want %q\n%s", name, got, c.sleep, r.Text)
		}
		spared := c.w.Preset.KeepsIdle && c.w.Flags == nil && !c.w.Unwrap
		if got := strings.Join(lost, ","); (got == "web,wrapped web") != spared || got != "" && !spared {
			t.Errorf("%s: left awake %q", name, got)
		}
		if n := r.Preset(); spared && n != 2 || !spared && n != 0 {
			t.Errorf("%s: %d get the preset", name, n)
		}
	}
}

// lookupText is the command line of a server in a text.
func lookupText(t *testing.T, text []byte, keys []string) string {
	t.Helper()
	doc, err := parse(text, JSON)
	if err != nil {
		t.Fatal(err)
	}
	s := server(lookup(doc, keys))
	return s.Command + " " + strings.Join(s.Args, " ")
}

func TestMustStay(t *testing.T) {
	for line, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-filesystem /data":          "",
		"uvx mcp-server-fetch":                                          "",
		"/opt/playwright/bin/node server.js":                            "", // where a program lies says nothing of it
		"npx -y @playwright/mcp@latest --headless":                      "its browser",
		"npx chrome-devtools-mcp":                                       "its browser",
		"docker run -i --rm mcp/Puppeteer":                              "its browser",
		"npx mcp-remote https://x/sse":                                  "its connection",
		"npx @wonderwhy-er/desktop-commander":                           "its processes",
		"npx @modelcontextprotocol/server-sequential-thinking":          "what it has in memory",
		"mcp-server-jupyter":                                            "its processes",
		"npx -y @modelcontextprotocol/server-everything streamableHttp": "what it has in memory",
		"npx @cyanheads/git-mcp-server":                                 "what it has in memory",
	} {
		words := strings.Fields(line)
		if got := mustStay(words[0], words[1:]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
