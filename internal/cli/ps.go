package cli

import (
	"fmt"
	"os"
	"sort"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/live"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

const psHelp = `Lists the living sessions that you may see: your own, or those of all
users as root. On a terminal the lines fit its width.

Examples:
   mcp-tether ps
   mcp-tether ps --tree
   mcp-tether ps --watch          # as a tree, with a key that stops one
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
			&cli.BoolFlag{Name: "watch", DisableDefaultText: true, Usage: "show again and again; on a terminal as a tree with keys"},
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
	if !c.Bool("watch") {
		incomplete, err := list(c)
		if err == nil && incomplete {
			err = status{code: exitUnread}
		}
		return err
	}
	if !c.Bool("json") && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb" {
		return watch(c.Duration("interval"))
	}
	arriving, err := proc.Catch(1<<(syscall.SIGINT-1) | 1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGHUP-1))
	for over := false; err == nil && !over; {
		_, err = list(c)
		over = err == nil && proc.Poll([]unix.PollFd{{Fd: int32(arriving.FD()), Events: unix.POLLIN}}, c.Duration("interval")) > 0
	}
	return err
}

// list prints the sessions once, and reports whether something could not be read.
func list(c *cli.Context) (incomplete bool, err error) {
	all, unread, missing, err := shownSessions()
	if err != nil {
		return false, err
	}
	for _, m := range missing {
		fmt.Fprintln(os.Stderr, "mcp-tether: not complete:", m)
	}
	view := live.View{Tree: c.Bool("tree"), Users: os.Getuid() == 0}
	if view.Width, _, err = term.GetSize(int(os.Stdout.Fd())); err != nil {
		view.Width = 0
	}
	if c.Bool("json") {
		for i := range all {
			if !view.Tree {
				all[i].Tree = nil
			}
		}
		return len(missing) > 0, live.JSON(os.Stdout, all, unread)
	}
	if len(all)+len(unread) == 0 {
		fmt.Fprintln(os.Stderr, "no living sessions")
		return false, nil
	}
	return len(missing) > 0, live.Text(os.Stdout, all, view)
}

// shownSessions are the sessions that ps shows. unread says what could not be read, and missing, as text for a terminal, also
// what is not known of a session.
func shownSessions() (all []live.Session, unread, missing []string, err error) {
	dirs, left := session.OpenAllBut(os.Getuid(), runtimeDir())
	defer session.CloseAll(dirs)
	all, unread, err = livingSessions(dirs, left, live.AddContainers, true)
	for _, u := range unread {
		missing = append(missing, describe.Text(u))
	}
	for _, l := range all {
		if l.Unknown != "" {
			missing = append(missing, describe.Text("session "+l.ID+": "+l.Unknown))
		}
	}
	return all, unread, missing, err
}

// livingSessions lists the sessions in the user's directories, and as root with others those of all users, eldest first. more adds
// to the user's own sessions. left says which directories could not be opened, and incomplete what could not be read.
func livingSessions(dirs []*session.Directory, left []error, more func([]live.Session), others bool) (all []live.Session, incomplete []string, err error) {
	note := func(what string) { incomplete = append(incomplete, what) }
	for _, err := range left {
		note(err.Error())
	}
	if all, err = live.List(dirs, note); err != nil {
		return nil, nil, err
	}
	more(all)
	if others && os.Getuid() == 0 {
		all = append(all, live.Others(note)...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Started.Before(all[j].Started) })
	return all, incomplete, nil
}
