package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/display"
	"mcp-tether/internal/live"
)

// picked are the living sessions that a command line means.
type picked struct {
	live.Seen
	sel live.Selector
	// meant are those of them that the command line means.
	meant []live.Session
}

// pick finds the sessions that the flags and arguments of a command mean. One that root has delegated picks by itself.
func pick(c *cli.Context, command string, delegated bool) (p picked, err error) {
	p.sel = live.Selector{IDs: c.Args().Slice(), Name: c.String("name"), Gateway: c.Int("gateway"), All: c.Bool("all")}
	if len(p.sel.IDs) == 0 && !p.open() {
		return p, usageError(command + " needs a SESSION, --name, --gateway or --all")
	}
	if p.Seen, err = live.See(runtimeDir(), nil); err != nil {
		return p, err
	}
	for _, w := range p.Unread {
		fmt.Fprintln(os.Stderr, "mcp-tether: not complete:", display.Text(w))
	}
	if delegated {
		return p, nil
	}
	if p.meant, err = p.sel.Select(p.Sessions); err != nil {
		p.Close()
	}
	return p, err
}

// open reports whether a flag picks. By ids alone, all that were meant are known.
func (p *picked) open() bool { return p.sel.All || p.sel.Name != "" || p.sel.Gateway != 0 }

// confirmed asks on a terminal about --all, unless with --yes, and says where nothing is meant.
func (p *picked) confirmed(c *cli.Context, question string) bool {
	if len(p.meant) == 0 {
		fmt.Fprintln(os.Stderr, "no living sessions")
		return true
	}
	return !p.sel.All || !askable() || c.Bool("yes") || c.Bool("json") || confirm(question)
}

// result is what a command comes to: a flag may mean a session that could not be read.
func (p *picked) result(err error) error {
	if err == nil && p.open() && len(p.Unread) > 0 {
		return status{code: exitUnread}
	}
	return err
}

// notDone says why a session is not as was asked.
func notDone(id, why string) error {
	return fmt.Errorf("session %s: %s", display.Text(id), display.Text(why))
}

// tell prints what became of the sessions: as one object, or a line for each that is as was asked.
func tell(asJSON bool, object any, done []string, failed []error) error {
	if asJSON {
		if err := display.JSON(os.Stdout, object); err != nil {
			return err
		}
		done = nil
	}
	for _, line := range done {
		fmt.Fprintln(os.Stdout, strings.TrimSpace(display.Text(line)))
	}
	if len(failed) > 0 {
		return status{exitFindings, errors.Join(failed...)}
	}
	return nil
}
