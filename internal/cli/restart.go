package cli

import (
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/display"
	"mcp-tether/internal/live"
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

var restartFlags = [...]argv.Flag{
	{Name: "name", Kind: argv.Text, Usage: "the sessions with this `LABEL`"},
	{Name: "gateway", Kind: argv.Number, Usage: "the sessions of the gateway with this `PID`"},
	{Name: "all", Usage: "all sessions; asks on a terminal"},
	{Name: "force", Usage: "do not wait up to 30 s for open calls: they get errors"},
	{Name: "yes", Short: "y", Usage: "do not ask"},
	{Name: "timeout", Default: "90s", Kind: argv.Duration, Usage: "wait for `DURATION` at most: for open calls, the end of the server, and the next start"},
	{Name: "json", Usage: "print one JSON object"},
}

func restart(c *cli.Context) error {
	p, err := pick(c, "restart", false)
	if err != nil {
		return err
	}
	defer p.Close()
	if !p.confirmed(c, "Restart the servers of "+counted(len(p.meant), "session")+"?") {
		return status{exitFindings, errors.New("nothing was restarted")}
	}
	return p.result(reportRestarted(c.Bool("json"), live.Restart(p.meant, c.Bool("force"), c.Duration("timeout"))))
}

func reportRestarted(asJSON bool, restarted []live.Restarted) error {
	var done []string
	var failed []error
	for _, r := range restarted {
		said := strings.TrimSpace("restarted " + r.ID + " " + r.Name)
		switch {
		case !r.Restarted:
			failed = append(failed, notDone(r.ID, r.Error))
		case r.Next:
			done = append(done, said+": the next message starts the server")
		default:
			done = append(done, said)
		}
	}
	return tell(asJSON, struct {
		Version   int              `json:"version"`
		Restarted []live.Restarted `json:"restarted"`
	}{display.SchemaVersion, restarted}, done, failed)
}
