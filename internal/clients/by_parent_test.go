package clients

import "testing"

func TestGoesByParent(t *testing.T) {
	t.Parallel()
	for _, line := range [][]string{
		{"npx", "-y", "oh-my-codex@0.21.6"},
		{"node", "/usr/lib/node_modules/oh-my-codex/dist/mcp/state-server.js"},
		{"node", "/n/lib/node_modules/@newrelic/preflight/dist/index.js", "--stdio"},
		{"npx", "@newrelic/preflight"},
		{"bun", "/home/me/claude-peers-mcp/server.ts"},
		{"bun", "claude-peers-mcp/server.ts"},
	} {
		if !GoesByParent(line) {
			t.Errorf("%q does not", line)
		}
	}
	for _, line := range [][]string{
		nil, {"npx", "oh-my-codex-cli"}, {"node", "/x/preflight/index.js"}, {"bun", "/home/me/my-claude-peers-mcp/server.ts"},
		{"npx", "@newrelic/preflight-tools"},
	} {
		if GoesByParent(line) {
			t.Errorf("%q does", line)
		}
	}
}
