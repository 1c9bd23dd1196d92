package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/display"
	"mcp-tether/internal/session"
)

const historyHelp = `Lists your last sessions that are over, at most 500, in the order in
which they ended: why, what was ended with them, and what was left. With
an id or the beginning of one it shows all of a session. With a front
(--hibernate, --lazy, --on-crash, --share) it is one line, with the sum
of its server's starts. "run --no-history" leaves a session out.

Each process that was killed, kept or left is named, with its command, at
most 20 of each kind. Who has ended a daemon, --grep finds: it shows the
sessions in which a text occurs, and these processes.

The file is history.jsonl in $XDG_STATE_HOME/mcp-tether, else
~/.local/state/mcp-tether; of a root without home /var/lib/mcp-tether.

Exit code: 0 done; 2 no session is meant by that, several are, or
something could not be read.

Examples:
   mcp-tether history
   mcp-tether history 3f9a
   mcp-tether history --grep daemon
   mcp-tether history --json | jq '.sessions[] | select(.left)'`

var historyFlags = [...]argv.Flag{
	{Name: "grep", Kind: argv.Text, Usage: "only the sessions with `TEXT` in their name or command, or in what is told of their processes"},
	{Name: "json", Usage: "print one JSON object"},
}

// pastSessions are the sessions of the user that are over, eldest first.
func pastSessions() (all []*session.Past, unread int, err error) {
	dir, err := session.FindState(os.Getuid(), os.Getenv("XDG_STATE_HOME"), os.Getenv("HOME"))
	if errors.Is(err, unix.ENOENT) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer dir.Close()
	return dir.History()
}

func history(c *cli.Context) error {
	all, unread, err := pastSessions()
	if err != nil {
		return err
	}
	id := c.Args().First()
	if id != "" || c.NArg() > 0 {
		if all, err = pastByID(all, id); err != nil {
			return err
		}
	}
	text := c.String("grep")
	if text != "" {
		all = slices.DeleteFunc(all, func(p *session.Past) bool { return !p.Says(text) })
	}
	switch {
	case c.Bool("json"):
		err = display.JSON(os.Stdout, struct {
			Version  int             `json:"version"`
			Sessions []*session.Past `json:"sessions"`
			Unread   int             `json:"unread_lines,omitempty"`
		}{display.SchemaVersion, append([]*session.Past{}, all...), unread}) // [] instead of null
	case len(all) == 0 && text != "":
		fmt.Fprintln(os.Stderr, "no session that is over says", display.Text(text))
	case id != "":
		err = display.ShowPast(os.Stdout, all[0])
	case len(all) == 0:
		fmt.Fprintln(os.Stderr, "no session has ended yet")
	default:
		err = display.ListPast(os.Stdout, all, text, width())
	}
	if unread > 0 && err == nil {
		err = status{exitUnread, fmt.Errorf("not complete: %s of the history could not be read", counted(unread, "line"))}
	}
	return err
}

// pastByID is the session that an id, or the beginning of one, means.
func pastByID(all []*session.Past, id string) (one []*session.Past, err error) {
	for i := range all {
		if id != "" && all[i].Is(id) {
			one = append(one, all[i])
		}
	}
	switch len(one) {
	case 1:
		return one, nil
	case 0:
		return nil, fmt.Errorf("no session %q is over (mcp-tether history lists them, mcp-tether ps the living ones)", id)
	}
	return nil, fmt.Errorf("%d sessions begin with %q: give more of the id", len(one), id)
}
