package cli

import (
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
	"mcp-tether/internal/live"
)

// The shells ask the program itself for the words that may come next. Their scripts are installed by packages, and printed by
// "mcp-tether completion SHELL".
var (
	//go:embed completions/mcp-tether.bash
	bashCompletion string
	//go:embed completions/_mcp-tether
	zshCompletion string
	//go:embed completions/mcp-tether.fish
	fishCompletion string
)

func completion(c *cli.Context) error {
	script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Args().First()]
	if script == "" {
		return usageError("completion needs one of bash, zsh, fish")
	}
	fmt.Fprint(c.App.Writer, script)
	return nil
}

// complete prints the words that may stand in the place of the last one, each with what it means after a tab. ":files" and
// ":commands" ask the shell for those.
func complete(c *cli.Context) error {
	words := c.Args().Slice()
	if len(words) == 0 {
		return errors.New("no words")
	}
	last := words[len(words)-1]
	for _, candidate := range candidates(c.App, words) {
		if strings.HasPrefix(candidate, last) || candidate[0] == ':' {
			fmt.Fprintln(c.App.Writer, candidate)
		}
	}
	return nil
}

func candidates(a *cli.App, words []string) (all []string) {
	if len(words) == 1 {
		for _, c := range a.VisibleCommands() {
			all = append(all, c.Name+"\t"+c.Usage)
		}
		return append(all, "--help", "--version")
	}
	command, behind := words[0], slices.Index(words, "--")
	if a.Command(command) == nil {
		return nil
	}
	if command == "wrap" && behind > 0 && behind < len(words)-1 {
		command = "run" // whose flags these are
	}
	for _, f := range visible(tableOf(command)) {
		word, text := placeholder(&f)
		switch {
		case "--"+f.Name != words[len(words)-2] || f.Kind == argv.Switch:
		case word == "FILE":
			return []string{":files"}
		default:
			return f.Values
		}
		all = append(all, "--"+f.Name+"\t"+text)
	}
	if strings.HasPrefix(words[len(words)-1], "-") {
		return append(all, "--help\tshow help")
	}
	switch words[0] {
	case "run":
		return []string{":commands"}
	case "wrap", "unwrap":
		return append(clients.Names(), ":files")
	case "stop", "restart", "ps":
		return livingIDs()
	case "history":
		past, _, _ := pastSessions()
		for i := range past {
			all = append(all, past[i].ID+"\t"+display.Command(past[i].Args))
		}
		return all
	case "completion":
		return []string{"bash", "zsh", "fish"}
	case "help":
		return candidates(a, []string{""})
	}
	return nil
}

// livingIDs are the ids of the user's living sessions, each with its name.
func livingIDs() (all []string) {
	seen, _ := live.See(runtimeDir(), nil)
	defer seen.Close()
	for _, l := range seen.Sessions {
		all = append(all, display.Text(l.ID)+"\t"+display.Text(l.Name))
	}
	return all
}
