package main

import (
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mcp-tether/live"
)

const psHelp = `Lists the living sessions that you may see: your own, or those of all users as root.

Examples:
   mcp-tether ps
   mcp-tether ps --tree
   mcp-tether ps --watch          until interrupted
   mcp-tether ps --json | jq '.sessions[].name'`

func psCommand() *cli.Command {
	return &cli.Command{
		Name:            "ps",
		Usage:           "show living sessions",
		UsageText:       "mcp-tether ps [flags]",
		Description:     psHelp,
		HideHelpCommand: true,
		OnUsageError:    badUsage,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "tree", Usage: "show every process and container"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
			&cli.BoolFlag{Name: "watch", Usage: "show again and again"},
			&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "time between two looks with --watch"},
		},
		Action: ps,
	}
}

func ps(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("ps takes no arguments, got " + c.Args().First())
	}
	if c.Duration("interval") <= 0 {
		return usageError("--interval must be more than 0")
	}
	for {
		all, err := live.List(runtimeDir())
		if err != nil {
			return err
		}
		live.AddContainers(all)
		if c.Bool("watch") && term.IsTerminal(int(os.Stdout.Fd())) && !c.Bool("json") {
			fmt.Fprint(os.Stdout, "\x1b[H\x1b[2J")
		}
		if err := show(c, all); err != nil || !c.Bool("watch") {
			return err
		}
		time.Sleep(c.Duration("interval"))
	}
}

func show(c *cli.Context, all []live.Session) error {
	if c.Bool("json") {
		if !c.Bool("tree") {
			for i := range all {
				all[i].Tree = nil
			}
		}
		return live.JSON(os.Stdout, all)
	}
	if len(all) == 0 {
		fmt.Fprintln(os.Stderr, "no living sessions")
		return nil
	}
	return live.Text(os.Stdout, all, c.Bool("tree"))
}
