package clients

import (
	"slices"
	"strings"
)

// byParent are packages whose servers look at the process that has started them, which is mcp-tether's once they are wrapped:
// claude-peers-mcp asks for its terminal, oh-my-codex for servers that have the same parent, and @newrelic/preflight looks for a
// file that a hook of the client has named after its pid.
var byParent = [...]string{"claude-peers-mcp", "oh-my-codex", "@newrelic/preflight"}

// GoesByParent reports whether a command line starts such a server: by its package, or from a directory of that name.
func GoesByParent(line []string) bool {
	return slices.ContainsFunc(line, func(word string) bool {
		return slices.ContainsFunc(byParent[:], func(name string) bool {
			return withoutVersion(word) == name || strings.Contains("/"+word, "/"+name+"/")
		})
	})
}
