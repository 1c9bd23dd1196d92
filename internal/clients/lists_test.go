package clients

import (
	"errors"
	"strings"
	"testing"
)

// Where an organisation's list compares commands, or cannot be read, nothing is wrapped. Names are as they were.
func TestLists(t *testing.T) {
	const (
		deny     = `{"deniedMcpServers":[{"serverCommand":["node","/srv/x.js","--bad"]}]}`
		allow    = `{"allowedMcpServers":[{"serverName":"a"},{"serverCommand":["node","/srv/x.js"]}]}`
		identity = "[mcp_servers.docs]\nidentity = { command = \"docs-mcp\" }\n"
	)
	for name, c := range map[string]struct {
		list, said, path string
		listed           bool
	}{
		"none":                 {"/etc/other", deny, "x/.claude.json", false},
		"denied":               {claudeList, deny, "x/.claude.json", true},
		"denied in project":    {claudeList, deny, "x/.mcp.json", true},
		"denied in a part":     {"/etc/claude-code/managed-settings.d/10.json", deny, "x/.mcp.json", true},
		"of another client":    {claudeList, deny, "x/mcp.json", false},
		"by name":              {claudeList, `{"deniedMcpServers":[{"serverName":"bad"}],"allowedMcpServers":[]}`, "x/.claude.json", false},
		"allowed":              {claudeList, allow, "x/.claude.json", true},
		"codex":                {codexList, identity, "x/.codex/config.toml", true},
		"codex, no list":       {codexList, "approval_policy = \"never\"\n", "x/.codex/config.toml", false},
		"cannot be read":       {claudeList, "{", "x/.mcp.json", true},
		"cannot be read, TOML": {codexList, "{", "x/.codex/config.toml", true},
	} {
		root := write(t, map[string]string{c.list[1:]: c.said})
		p := Place{Path: c.path, Format: formatOf(c.path)}
		if c.path == "x/.claude.json" {
			p.Client.Name = claude
		}
		err := listed(root, p)
		if (err != nil) != c.listed || err != nil && (!errors.Is(err, ErrListed) || !strings.Contains(err.Error(), c.list)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is wrapped already stays so, with its flags, and can be unwrapped.
func TestListedServers(t *testing.T) {
	text := `{"mcpServers":{"bare":{"command":"node","args":["x"]},"wrapped":{"command":"mcp-tether","args":["run","--","node","x"]}}}`
	for _, flags := range [][]string{nil, {"--lazy"}} {
		p, err := rewrite([]byte(text), JSON, Options{Listed: ErrListed, Flags: flags}, every)
		if err != nil || string(p.Text) != text {
			t.Fatalf("%v, %s", err, p.Text)
		}
		for _, ch := range p.Changes {
			if left := ch.Name == "bare" || flags != nil; errors.Is(ch.Err, ErrListed) != left || ch.Bare() {
				t.Errorf("%v: %+v", flags, ch)
			}
		}
	}
	if p, err := rewrite([]byte(text), JSON, Options{Listed: ErrListed, Unwrap: true}, every); err != nil || !p.Changes[1].Edited {
		t.Errorf("unwrap: %v, %+v", err, p.Changes)
	}
}
