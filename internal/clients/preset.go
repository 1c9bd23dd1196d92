package clients

import (
	"path"
	"strings"
)

// idleTime is what run's --hibernate gets for a client that keeps idle servers.
const idleTime = "30m"

// lossWords are words in the command lines of servers that must not be ended while they are idle, and what would be lost.
var lossWords = [...]struct{ lost, words string }{
	{"its browser", "playwright puppeteer chrome-devtools browser selenium stagehand webdriver"},
	{"its processes", "terminal desktop-commander tmux jupyter repl shell ssh debug gdb lldb"},
	{"its connection", "mcp-remote mcp-proxy supergateway"},
	{"what it has in memory", "sequential-thinking sequentialthinking server-everything git-mcp-server"},
}

// mustStay is what a server would lose if it were ended while it is idle; "" if nothing is known to be lost. It judges
// by words in the command line. When in doubt it leaves a server awake.
func mustStay(command string, args []string) string {
	line := strings.ToLower(path.Base(command) + " " + strings.Join(args, " "))
	for _, a := range lossWords {
		for word := range strings.FieldsSeq(a.words) {
			if strings.Contains(line, word) {
				return a.lost
			}
		}
	}
	return ""
}

// preset gives the flags of run that fit what the client does. lost, if not empty, says what a server would lose with
// them, which is why it gets none.
func (c Client) preset(command string, args []string) (flags []string, lost string) {
	if !c.KeepsIdle {
		return nil, ""
	}
	if lost = mustStay(command, args); lost != "" {
		return nil, lost
	}
	return []string{"--lazy", "--hibernate", idleTime}, ""
}
