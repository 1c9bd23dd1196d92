package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/display"
)

func help(c *cli.Context) error {
	name := c.Args().First()
	if name == "" {
		return cli.ShowAppHelp(c)
	}
	if c.App.Command(name) == nil {
		return noCommand(c.App, name)
	}
	return cli.ShowCommandHelp(c, name)
}

func noCommand(a *cli.App, name string) error {
	hint := cli.SuggestCommand(a.VisibleCommands(), name)
	return usageError("no such command: " + name + "; d" + strings.TrimPrefix(hint, "D") + " (see mcp-tether --help)")
}

// words are what a newcomer may not know.
const words = `A gateway is the program that starts MCP servers: Codex, Claude Code, an SDK.
A session is one run of a server, from its start until nothing of it is left.
Help of a command: mcp-tether COMMAND --help, or man mcp-tether-COMMAND.
Documentation: docs/ of the source, in /usr/share/doc/mcp-tether of the package.`

// helpWidth is how wide help is, and flagIndent where the text about a flag begins.
const (
	helpWidth  = 80
	flagIndent = 10
)

// printHelp prints the help of the program, or of a command.
func printHelp(w io.Writer, _ string, about any) {
	c, ok := about.(*cli.Command)
	if !ok {
		printOverview(w, about.(*cli.App))
		return
	}
	on := display.Coloured(w)
	fmt.Fprintf(w, "%s - %s\n\n   %s\n", display.Paint(on, display.Bold, "mcp-tether "+c.Name), c.Usage, c.UsageText)
	if c.Description != "" {
		fmt.Fprintf(w, "\n%s\n", indented(c.Description))
	}
	group := ""
	for i, f := range visible(tableOf(c.Name)) {
		if i == 0 || f.Group != group {
			group = f.Group
			fmt.Fprintf(w, "\n%s:\n", display.Paint(on, display.Bold, cmp.Or(group, "Flags")))
		}
		printFlag(w, on, &f)
	}
}

func printFlag(w io.Writer, on bool, f *argv.Flag) {
	name, value := "--"+f.Name, ""
	if f.Short != "" {
		name += ", -" + f.Short
	}
	word, text := placeholder(f)
	if word != "" {
		value = " " + word
	}
	var more []string
	if d := defaultOf(f); d != "" {
		more = append(more, "default "+d)
	}
	if f.Env != "" {
		more = append(more, "$"+f.Env)
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	fmt.Fprintf(w, "   %s%s\n%s\n", display.Paint(on, display.Bold, name), value, fold(text, flagIndent))
}

func printOverview(w io.Writer, a *cli.App) {
	on := display.Coloured(w)
	fmt.Fprintf(w, "%s - %s\n\n   mcp-tether COMMAND [flags]\n", display.Paint(on, display.Bold, a.Name), a.Usage)
	group := ""
	for i := range table {
		if table[i].group != group {
			group = table[i].group
			fmt.Fprintf(w, "\n%s:\n", display.Paint(on, display.Bold, group))
		}
		fmt.Fprintf(w, "   %-12s%s\n", table[i].name, table[i].usage)
	}
	fmt.Fprintf(w, "\n%s\n", words)
}

// indented moves lines to the right.
func indented(text string) string {
	return "   " + strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\n   "), "\n   \n", "\n\n")
}

// fold breaks a text between words, and moves it to the right.
func fold(text string, indent int) string {
	space := strings.Repeat(" ", indent)
	out, line := "", space
	for word := range strings.FieldsSeq(text) {
		if len(line) > indent && len(line)+1+len(word) > helpWidth {
			out += line + "\n"
			line = space
		}
		if len(line) > indent {
			line += " "
		}
		line += word
	}
	return out + line
}
