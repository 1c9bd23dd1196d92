package cli

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/live"
	"mcp-tether/internal/session"
)

const psHelp = `Lists the living sessions that you may see: your own, or those of all users as root.

Examples:
   mcp-tether ps
   mcp-tether ps --tree
   mcp-tether ps --watch          # until interrupted
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
			&cli.BoolFlag{Name: "tree", DisableDefaultText: true, Usage: "show every process and container"},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print one JSON object"},
			&cli.BoolFlag{Name: "watch", DisableDefaultText: true, Usage: "show again and again"},
			&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "with --watch: `DURATION` from one list to the next"},
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
		dirs, left := session.OpenAllBut(os.Getuid(), runtimeDir())
		all, unread, err := livingSessions(dirs, left, live.AddContainers)
		session.CloseAll(dirs)
		if err != nil {
			return err
		}
		if c.Bool("watch") && term.IsTerminal(int(os.Stdout.Fd())) && !c.Bool("json") {
			fmt.Fprint(os.Stdout, "\x1b[H\x1b[2J")
		}
		incomplete := unread
		for _, l := range all {
			if l.Unknown != "" {
				incomplete = append(incomplete, "session "+l.ID+": "+l.Unknown)
			}
		}
		for _, w := range incomplete {
			fmt.Fprintln(os.Stderr, "mcp-tether: not complete:", describe.Text(w))
		}
		if err := show(c, all, unread); err != nil {
			return err
		}
		switch {
		case c.Bool("watch"):
		case len(incomplete) > 0:
			return status{code: exitUnread}
		default:
			return nil
		}
		time.Sleep(c.Duration("interval"))
	}
}

func show(c *cli.Context, all []live.Session, unread []string) error {
	if c.Bool("json") {
		if !c.Bool("tree") {
			for i := range all {
				all[i].Tree = nil
			}
		}
		return live.JSON(os.Stdout, all, unread)
	}
	if len(all)+len(unread) == 0 {
		fmt.Fprintln(os.Stderr, "no living sessions")
		return nil
	}
	return live.Text(os.Stdout, all, c.Bool("tree"))
}

// livingSessions lists the sessions in the user's directories, and as root those of all users, eldest first. more adds
// to the user's own sessions. left says which directories could not be opened, and incomplete what could not be read.
func livingSessions(dirs []*session.Directory, left []error, more func([]live.Session)) (all []live.Session, incomplete []string, err error) {
	note := func(what string) { incomplete = append(incomplete, what) }
	for _, err := range left {
		note(err.Error())
	}
	if all, err = live.List(dirs, note); err != nil {
		return nil, nil, err
	}
	more(all)
	if os.Getuid() == 0 {
		all = append(all, live.Others(note)...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Started.Before(all[j].Started) })
	return all, incomplete, nil
}
