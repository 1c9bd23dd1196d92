package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/live"
	"mcp-tether/internal/session"
)

const restartHelp = `Ends the servers of sessions and starts them again, as a new version of
the code or of the package needs it, or a server that hangs. The clients
keep their connections, and hear of tools, prompts and resources that
have changed. A session is given by its id or the beginning of it
(mcp-tether ps shows them), or picked by a flag.

That needs a session with --hibernate, --lazy, --on-crash restart,
--restart-on or --share. For others it says how to make them able.

Exit code: 0 all have another server, or get it with the next message;
1 one has none, or the answer was no; 2 no living session is meant, or
a flag may mean one that could not be read.

Examples:
   mcp-tether restart 3f9a
   mcp-tether restart --name files
   mcp-tether restart --force --name files # open calls get errors
   mcp-tether restart --all --yes`

// restartTimeout is how long a restart waits, unless told otherwise: for open calls, the end of the server, and the next start.
const restartTimeout = 90 * time.Second

func restartCommand() *cli.Command {
	return &cli.Command{
		Name:            "restart",
		Usage:           "start the servers of living sessions again",
		UsageText:       "mcp-tether restart [flags] [SESSION...]",
		Description:     restartHelp,
		HideHelpCommand: true,
		OnUsageError:    badUsage,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "the sessions with this `LABEL`"},
			&cli.IntFlag{Name: "gateway", DefaultText: "none", Usage: "the sessions of the gateway with this `PID`"},
			&cli.BoolFlag{Name: "all", DisableDefaultText: true, Usage: "all sessions; asks on a terminal"},
			&cli.BoolFlag{Name: "force", DisableDefaultText: true, Usage: "do not wait up to 30 s for open calls: they get errors"},
			&cli.BoolFlag{Name: "yes", DisableDefaultText: true, Aliases: []string{"y"}, Usage: "do not ask"},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print one JSON object"},
			&cli.DurationFlag{Name: "timeout", Value: restartTimeout, Usage: "wait for `DURATION` at most"},
		},
		Action: restart,
	}
}

func restart(c *cli.Context) error {
	sel := live.Selector{IDs: c.Args().Slice(), Name: c.String("name"), Gateway: c.Int("gateway"), All: c.Bool("all")}
	if len(sel.IDs) == 0 && sel.Name == "" && sel.Gateway == 0 && !sel.All {
		return usageError("restart needs a SESSION, --name, --gateway or --all")
	}
	dirs, left := session.OpenAllBut(os.Getuid(), runtimeDir())
	defer session.CloseAll(dirs)
	all, incomplete, err := livingSessions(dirs, left, func([]live.Session) {}, false)
	if err != nil {
		return err
	}
	for _, w := range incomplete {
		fmt.Fprintln(os.Stderr, "mcp-tether: not complete:", describe.Text(w))
	}
	picked, err := sel.Select(all)
	if err != nil {
		return err
	}
	if len(picked) == 0 {
		fmt.Fprintln(os.Stderr, "no living sessions")
	} else if sel.All && askable() && !c.Bool("yes") && !c.Bool("json") && !confirm("Restart the servers of "+counted(len(picked), "session")+"?") {
		return status{exitFindings, errors.New("nothing was restarted")}
	}
	err = reportRestarted(c.Bool("json"), live.Restart(picked, c.Bool("force"), c.Duration("timeout")))
	// By ids alone, all that were meant are known.
	if open := sel.All || sel.Name != "" || sel.Gateway != 0; err == nil && open && len(incomplete) > 0 {
		return status{code: exitUnread}
	}
	return err
}

func reportRestarted(asJSON bool, restarted []live.Restarted) error {
	if asJSON {
		err := describe.JSON(os.Stdout, struct {
			Version   int              `json:"version"`
			Restarted []live.Restarted `json:"restarted"`
		}{describe.SchemaVersion, restarted})
		if err != nil {
			return err
		}
	}
	var failed []error
	for _, r := range restarted {
		said := strings.TrimSpace(describe.Text("restarted " + r.ID + " " + r.Name))
		switch {
		case !r.Restarted:
			failed = append(failed, fmt.Errorf("session %s: %s", describe.Text(r.ID), describe.Text(r.Error)))
		case asJSON:
		case r.Next:
			fmt.Fprintln(os.Stdout, said+": the next message starts the server")
		default:
			fmt.Fprintln(os.Stdout, said)
		}
	}
	if len(failed) > 0 {
		return status{exitFindings, errors.Join(failed...)}
	}
	return nil
}
