package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

func helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Usage: "show help about a command", UsageText: "mcp-tether help [COMMAND]", HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			name := c.Args().First()
			if name == "" {
				return cli.ShowAppHelp(c)
			}
			if c.App.Command(name) == nil {
				return noCommand(c.App, name)
			}
			return cli.ShowCommandHelp(c, name)
		},
	}
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version", UsageText: "mcp-tether version", HideHelpCommand: true,
		Action: func(c *cli.Context) error { cli.ShowVersion(c); return nil },
	}
}

func noCommand(a *cli.App, name string) error {
	var all []string
	for _, c := range a.Commands {
		all = append(all, c.Name)
	}
	return usageError("no such command: " + name + didYouMean(name, all) + " (see mcp-tether --help)")
}

// didYouMean is a question after a word that is unknown: whether the nearest of the known ones was meant. It is empty where
// none is near.
func didYouMean(word string, known []string) string {
	best, least := "", 1+len(word)/3
	for _, k := range known {
		if d := distance(word, k); d <= least {
			best, least = k, d-1
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is how many bytes must be put in, taken out or replaced to make one word of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// helpWidth is how wide help is.
const helpWidth = 80

// printHelp prints help in lines that fit a terminal.
func printHelp(w io.Writer, text string, about any) {
	var b bytes.Buffer
	cli.HelpPrinterCustom(&b, text, about, nil)
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(w, fold(strings.TrimRight(line, "\n")))
	}
}

// fold breaks a line between words, and moves what follows below its second column. A flag has a line of its own.
func fold(line string) string {
	out := ""
	start := len(line) - len(strings.TrimLeft(line, " "))
	if at := strings.Index(line[start:], "  "); at >= 0 {
		name, text := line[:start+at], strings.TrimLeft(line[start+at:], " ")
		start = len(line) - len(text)
		if strings.HasPrefix(line, "   --") {
			name, _, _ = strings.Cut(name, " [ ") // A flag that may be repeated is named twice.
			out, start = name+"\n", flagIndent
			line = strings.Repeat(" ", start) + text
		}
	}
	for len(line) > helpWidth {
		at := strings.LastIndexByte(line[:helpWidth+1], ' ')
		if at <= start {
			break
		}
		out += line[:at] + "\n"
		line = strings.Repeat(" ", start) + line[at+1:]
	}
	return out + line
}

// flagIndent is where the text about a flag begins.
const flagIndent = 10
