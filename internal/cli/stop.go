package cli

import (
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/display"
	"mcp-tether/internal/live"
)

const stopHelp = `Asks the supervisors of sessions to end them, politely, and waits until
nothing of them is left. A session is given by its id or the beginning
of it (mcp-tether ps shows them), or picked by a flag. Says which ended.
Root means the sessions of all users, as with ps.

Exit code: 0 all ended, or --all and there was none; 1 something is still
there, or the answer was no; 2 no living session is meant, or a flag may
mean one that could not be read.

Examples:
   mcp-tether stop 3f9a
   mcp-tether stop --name files
   mcp-tether stop --gateway 4711
   mcp-tether stop --all
   mcp-tether stop $(mcp-tether ps -q)`

var stopFlags = [...]argv.Flag{
	{Name: "name", Kind: argv.Text, Usage: "the sessions with this `LABEL`"},
	{Name: "gateway", Kind: argv.Number, Usage: "the sessions of the gateway with this `PID`"},
	{Name: "all", Usage: "all sessions; asks on a terminal"},
	{Name: "yes", Short: "y", Usage: "do not ask"},
	{Name: "timeout", Default: "15s", Kind: argv.Duration, Usage: "wait for `DURATION` at most"},
	{Name: "json", Usage: "print one JSON object"},
}

func stop(c *cli.Context, delegated bool) error {
	p, err := pick(c, "stop", delegated)
	if err != nil {
		return err
	}
	defer p.Close()
	switch {
	case delegated:
		return reportStopped(c.Bool("json"), live.StopListed(p.Dirs, p.Sessions, c.Args().Slice(), c.Duration("timeout")))
	case !p.confirmed(c, "Stop "+counted(len(p.meant), "session")+"?"):
		return status{exitFindings, errors.New("nothing was stopped")}
	}
	return p.result(reportStopped(c.Bool("json"), live.StopAs(p.meant, os.Getuid(), c.Duration("timeout"))))
}

func reportStopped(asJSON bool, stopped []live.Stopped) error {
	var done []string
	var failed []error
	for _, s := range stopped {
		if s.Ended {
			done = append(done, "ended "+s.ID+" "+s.Name)
		} else {
			failed = append(failed, notDone(s.ID, s.Error))
		}
	}
	return tell(asJSON, struct {
		Version int            `json:"version"`
		Stopped []live.Stopped `json:"stopped"`
	}{display.SchemaVersion, stopped}, done, failed)
}
