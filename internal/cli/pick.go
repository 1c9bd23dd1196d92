package cli

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/display"
	"mcp-tether/internal/live"
	"mcp-tether/internal/session"
)

// picked are the living sessions that a command line means.
type picked struct {
	sel  live.Selector
	dirs []*session.Directory
	// all are those that live, and sessions the ones that are meant.
	all, sessions []live.Session
	// incomplete says that there may be others that could not be read.
	incomplete bool
}

// pick finds the sessions that the flags and arguments of a command mean. One that root has delegated picks by itself. The
// directories stay open until close, also after an error.
func pick(c *cli.Context, command string, delegated bool) (p picked, err error) {
	p.sel = live.Selector{IDs: c.Args().Slice(), Name: c.String("name"), Gateway: c.Int("gateway"), All: c.Bool("all")}
	if len(p.sel.IDs) == 0 && !p.open() {
		return p, usageError(command + " needs a SESSION, --name, --gateway or --all")
	}
	dirs, left := session.OpenAllBut(os.Getuid(), runtimeDir())
	p.dirs = dirs
	all, incomplete, err := livingSessions(dirs, left, func([]live.Session) {})
	if err != nil {
		return p, err
	}
	p.all = all
	for _, w := range incomplete {
		fmt.Fprintln(os.Stderr, "mcp-tether: not complete:", display.Text(w))
	}
	if p.incomplete = len(incomplete) > 0; !delegated {
		p.sessions, err = p.sel.Select(all)
	}
	return p, err
}

func (p *picked) close() { session.CloseAll(p.dirs) }

// open reports whether a flag picks. By ids alone, all that were meant are known.
func (p *picked) open() bool { return p.sel.All || p.sel.Name != "" || p.sel.Gateway != 0 }

// confirmed asks on a terminal about --all, unless with --yes, and says where nothing is meant.
func (p *picked) confirmed(c *cli.Context, question string) bool {
	if len(p.sessions) == 0 {
		fmt.Fprintln(os.Stderr, "no living sessions")
		return true
	}
	return !p.sel.All || !askable() || c.Bool("yes") || c.Bool("json") || confirm(question)
}

// outcome is what a command comes to: a flag may mean a session that could not be read.
func (p *picked) outcome(err error) error {
	if err == nil && p.open() && p.incomplete {
		return status{code: exitUnread}
	}
	return err
}
