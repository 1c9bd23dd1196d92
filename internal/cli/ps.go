package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/display"
	"mcp-tether/internal/live"
)

const psHelp = `Lists the living sessions that you may see: your own, or those of all
users as root. With an id or the beginning of one it shows all of a
session. On a terminal the lines fit its width.

Examples:
   mcp-tether ps
   mcp-tether ps 3f9a
   mcp-tether ps --tree
   mcp-tether ps --watch          # as a tree, with a key that stops one
   mcp-tether stop $(mcp-tether ps -q)
   mcp-tether ps --json | jq '.sessions[].name'`

var psFlags = [...]argv.Flag{
	{Name: "tree", Usage: "show every process and container"},
	{Name: "quiet", Short: "q", Usage: "print nothing but whole ids"},
	{Name: "watch", Usage: "show every 2 seconds, as a tree with keys"},
	{Name: "json", Usage: "print one JSON object"},
}

func ps(c *cli.Context) error {
	if !c.Bool("watch") {
		incomplete, err := list(c)
		if err == nil && incomplete {
			err = status{code: exitUnread}
		}
		return err
	}
	if c.NArg() > 0 || c.Bool("quiet") || c.Bool("json") || !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("TERM") == "dumb" {
		return usageError("--watch shows all sessions on a terminal; elsewhere: watch mcp-tether ps")
	}
	return live.Watch(runtimeDir())
}

// list prints the sessions once, and reports whether something could not be read.
func list(c *cli.Context) (incomplete bool, err error) {
	seen, err := live.See(runtimeDir(), live.AddContainers)
	seen.Close()
	if err != nil {
		return false, err
	}
	all, missing := seen.Sessions, seen.Missing()
	for _, m := range missing {
		fmt.Fprintln(os.Stderr, "mcp-tether: not complete:", m)
	}
	if id := c.Args().First(); c.NArg() > 0 {
		sel := live.Selector{IDs: []string{id}}
		if all, err = sel.Select(all); err != nil {
			return false, err
		}
	}
	view := live.View{Tree: c.Bool("tree"), Users: os.Getuid() == 0, Width: width()}
	switch {
	case c.Bool("quiet"):
		for i := range all {
			fmt.Fprintln(os.Stdout, display.Text(all[i].ID))
		}
	case c.Bool("json"):
		for i := range all {
			if !view.Tree {
				all[i].Tree = nil
			}
		}
		err = live.JSON(os.Stdout, all, seen.Unread)
	case c.NArg() > 0:
		for i := range all { // of several users, if one has written down another's id
			err = errors.Join(err, display.Table(os.Stdout, all[i].Full(), 0, func(int) bool { return false }))
		}
	case len(all)+len(seen.Unread) == 0:
		fmt.Fprintln(os.Stderr, "no living sessions")
	default:
		err = live.Text(os.Stdout, all, view)
	}
	return len(missing) > 0, err
}

// width is that of the terminal, in characters; 0 where there is none.
func width() int {
	n, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return n
}
