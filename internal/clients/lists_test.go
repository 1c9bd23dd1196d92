package clients

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// An organisation's list comes first: what it denies stays bare, and so does what it would no longer allow.
func TestLists(t *testing.T) {
	const (
		pair     = `{"mcpServers":{"good":{"command":"node","args":["/srv/x.js"]},"bad":{"command":"node","args":["/srv/x.js","--bad"]}}}`
		deny     = `{"deniedMcpServers":[{"serverCommand":["node","/srv/x.js","--bad"]}]}`
		allow    = `{"allowedMcpServers":[{"serverCommand":["node","/srv/x.js"]}]}`
		allowed  = `{"allowedMcpServers":[{"serverCommand":["mcp-tether","run","--name","good","--","node","/srv/x.js"]}]}`
		docs     = "[mcp_servers.docs]\ncommand = \"docs-mcp\"\nargs = [\"--stdio\"]\n"
		identity = "[mcp_servers.docs]\nidentity = { command = \"docs-mcp\" }\n"
	)
	for name, c := range map[string]struct {
		list, said, path, text string
		wrapped                string // the names of those that are wrapped
		says                   []string
	}{
		"none":              {"", "", "x/.claude.json", pair, "good bad", nil},
		"denied":            {claudeList, deny, "x/.claude.json", pair, "good", []string{"denies it", "managed-settings.json", "--bad"}},
		"denied in project": {claudeList, deny, "x/.mcp.json", pair, "good", []string{"denies it"}},
		"denied in a part":  {"/etc/claude-code/managed-settings.d/10.json", deny, "x/.mcp.json", pair, "good", []string{"managed-settings.d/10.json denies it"}},
		"denied by name":    {claudeList, `{"deniedMcpServers":[{"serverName":"bad"}]}`, "x/.claude.json", pair, "good", []string{"denies it"}},
		"of another client": {claudeList, deny, "x/mcp.json", pair, "good bad", nil},
		"allowed bare": {claudeList, allow, "x/.claude.json", pair, "", []string{
			`add to allowedMcpServers: {"serverCommand":["mcp-tether","run","--name","good","--","node","/srv/x.js"]}`, "does not allow it"}},
		"allowed wrapped":  {claudeList, allowed, "x/.claude.json", pair, "good", []string{"does not allow it"}},
		"allowed by name":  {claudeList, `{"allowedMcpServers":[{"serverName":"good"}]}`, "x/.claude.json", pair, "good", []string{"does not allow it"}},
		"nothing allowed":  {claudeList, `{"allowedMcpServers":[]}`, "x/.claude.json", pair, "", []string{"does not allow it"}},
		"codex":            {codexList, identity, "x/.codex/config.toml", docs, "", []string{`add to mcp_servers: [mcp_servers."docs"] identity = { command = "mcp-tether" }`}},
		"codex, wrapped":   {codexList, strings.Replace(identity, "docs-mcp", "mcp-tether", 1), "x/.codex/config.toml", docs, "docs", nil},
		"codex, no list":   {codexList, "approval_policy = \"never\"\n", "x/.codex/config.toml", docs, "docs", nil},
		"codex, not named": {codexList, "[mcp_servers.other]\nidentity = { command = \"docs-mcp\" }\n", "x/.codex/config.toml", docs, "", []string{"does not allow it"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if c.list != "" {
				root = write(t, map[string]string{c.list[1:]: c.said})
			}
			p := Place{Path: c.path, Format: formatOf(c.path)}
			if c.path == "x/.claude.json" {
				p.Client.Name = claude
			}
			l, err := listsBelow(root, p)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := rewrite([]byte(c.text), p.Format, Options{lists: l}, every)
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, ch := range plan.Changes {
				if want := strings.Contains(" "+c.wrapped+" ", " "+ch.Name+" "); ch.Edited != want || ch.Bare() && !want || (ch.Err != nil) != errors.Is(ch.Err, ErrListed) {
					t.Errorf("%+v", ch)
				}
				if ch.Err != nil {
					said = append(said, ch.Err.Error())
				}
			}
			for _, want := range c.says {
				if !strings.Contains(strings.Join(said, "\n"), want) {
					t.Errorf("it says %q, not %q", said, want)
				}
			}
			if (len(said) > 0) != (len(c.says) > 0) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// What was wrapped before is judged as it is now.
func TestListsOfTheWrapped(t *testing.T) {
	wrapped := `{"mcpServers":{"bad":{"command":"mcp-tether","args":["run","--","node","x"]}}}`
	for said, want := range map[string]string{
		`{"deniedMcpServers":[{"serverCommand":["node","x"]}]}`:                          "denies what it starts",
		`{"allowedMcpServers":[{"serverCommand":["node","x"]}]}`:                         "wrapped it would be off",
		`{"allowedMcpServers":[{"serverCommand":["mcp-tether","run","--","node","x"]}]}`: "",
	} {
		l, err := listsBelow(write(t, map[string]string{claudeList[1:]: said}), Place{Path: ".mcp.json"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := rewrite([]byte(wrapped), JSON, Options{lists: l}, every)
		if ch := p.Changes[0]; err != nil || ch.Edited || (ch.Err != nil) != (want != "") || want != "" && !strings.Contains(ch.Err.Error(), want) {
			t.Errorf("%s: %v, %+v", said, err, ch)
		}
		if p, err := rewrite([]byte(wrapped), JSON, Options{Unwrap: true}, every); err != nil || !p.Changes[0].Edited {
			t.Errorf("unwrap: %v, %+v", err, p.Changes)
		}
	}
}

// A list that cannot be read may say anything: nothing is changed.
func TestListsUnread(t *testing.T) {
	for list, p := range map[string]Place{claudeList: {Path: ".mcp.json"}, codexList: {Path: ".codex/config.toml"}} {
		root := write(t, map[string]string{list[1:]: "{"})
		if _, err := listsBelow(root, p); !errors.Is(err, ErrListed) || !strings.Contains(err.Error(), list) {
			t.Errorf("%v", err)
		}
		if err := os.Remove(root + list); err != nil {
			t.Fatal(err)
		}
		if _, err := listsBelow(root, p); err != nil {
			t.Errorf("without it: %v", err)
		}
	}
}
