package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
)

// described is what is said of a command. From it come the parser's flags, help, completion and pages.
type described struct {
	// group is the heading that help has the command below.
	group, name, usage, arguments, help string
	flags                               []argv.Flag
}

// table are the commands as a user meets them.
var table = [...]described{
	{"Start here", "wrap", "start the servers of MCP clients under mcp-tether", "[flags] [CLIENT|FILE...] [-- FLAGS of run]", wrapHelp, wrapFlags[:]},
	{"Start here", "doctor", "say what works here, what is not wrapped and what leaks", "[flags]", doctorHelp, jsonFlags[:]},
	{"Start here", "unwrap", "undo wrap", "[flags] [CLIENT|FILE...]", unwrapHelp, wrapFlags[:alsoUnwrap]},
	{"Look", "ps", "show living sessions", "[flags] [SESSION]", psHelp, psFlags[:]},
	{"Look", "history", "show sessions that are over: why, and what was ended", "[flags] [SESSION]", historyHelp, historyFlags[:]},
	{"End or start again", "stop", "end living sessions politely", "[flags] [SESSION...]", stopHelp, stopFlags[:]},
	{"End or start again", "restart", "start the servers of living sessions again", "[flags] [SESSION...]", restartHelp, restartFlags[:]},
	{"End or start again", "reap", "find and end what outlived its session", "[flags]", reapHelp, reapFlags[:]},
	{"What wrap writes", "run", "start a server and end all of it with its session", "[flags] -- COMMAND [ARG...]", runHelp, argv.Run[:]},
	{"Other", "completion", "print a completion script for bash, zsh or fish", "bash|zsh|fish", "", nil},
	{"Other", "help", "show help about a command", "[COMMAND]", "", nil},
	{"Other", "version", "print the version", "", "", nil},
}

// tableOf are the flags of a command.
func tableOf(name string) []argv.Flag {
	for i := range table {
		if table[i].name == name {
			return table[i].flags
		}
	}
	return nil
}

// command makes the parser's command of what is said of it.
func command(name string, do cli.ActionFunc) *cli.Command {
	d := &table[slices.IndexFunc(table[:], func(d described) bool { return d.name == name })]
	return &cli.Command{
		Name: name, Category: d.group, Usage: d.usage, UsageText: strings.TrimSpace("mcp-tether " + name + " " + d.arguments), Description: d.help,
		HideHelpCommand: true, OnUsageError: badUsage, Flags: parserFlags(d.flags),
		Action: func(c *cli.Context) error {
			if err := d.check(c); err != nil {
				return err
			}
			return do(c)
		},
	}
}

// check refuses values that no flag may have, and more arguments than the command's usage shows.
func (d *described) check(c *cli.Context) error {
	most := len(strings.Fields(strings.TrimPrefix(d.arguments, "[flags]")))
	if !strings.Contains(d.arguments, "...") && c.NArg() > most {
		return usageError(fmt.Sprintf("%s: too many arguments: %s (see mcp-tether %[1]s --help)", d.name, c.Args().Get(most)))
	}
	return checkValues(c, d.flags, func(*argv.Flag) bool { return false })
}

// commands are those of the parser. delegated says that root has started us, as a user, to do something for that user, and behind are
// the words after "--" of wrap.
func commands(delegated bool, behind []string) []*cli.Command {
	return []*cli.Command{
		command("wrap", func(c *cli.Context) error { return wrap(c, behind) }), command("doctor", doctor), command("unwrap", unwrap),
		command("ps", ps), command("history", history),
		command("stop", func(c *cli.Context) error { return stop(c, delegated) }), command("restart", restart),
		command("reap", func(c *cli.Context) error { return reapAs(c, delegated) }),
		runCommand(nil), command("completion", completion), command("help", help),
		command("version", func(c *cli.Context) error { cli.ShowVersion(c); return nil }),
		{Name: "__complete", Hidden: true, HideHelpCommand: true, SkipFlagParsing: true, Action: complete},
	}
}
