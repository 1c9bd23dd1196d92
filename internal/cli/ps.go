package cli

import (
	"bytes"
	"fmt"
	"io"
	"math"
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
	view := live.View{Tree: c.Bool("tree"), Users: os.Getuid() == 0}
	if !c.Bool("watch") {
		incomplete, err := list(c, os.Stdout, view)
		if err == nil && incomplete {
			err = status{code: exitUnread}
		}
		return err
	}
	return watch(c, view)
}

// list prints the sessions once, and reports whether something could not be read.
func list(c *cli.Context, w io.Writer, view live.View) (incomplete bool, err error) {
	dirs, left := session.OpenAllBut(os.Getuid(), runtimeDir())
	all, unread, err := livingSessions(dirs, left, live.AddContainers, true)
	session.CloseAll(dirs)
	if err != nil {
		return false, err
	}
	missing := unread
	for _, l := range all {
		if l.Unknown != "" {
			missing = append(missing, "session "+l.ID+": "+l.Unknown)
		}
	}
	problems := io.Writer(os.Stderr)
	if view.Height > 0 {
		problems = w
	}
	for _, m := range missing {
		fmt.Fprintln(problems, "mcp-tether: not complete:", describe.Text(m))
	}
	if view.Width, _, err = term.GetSize(int(os.Stdout.Fd())); err != nil {
		view.Width = 0
	}
	if c.Bool("json") {
		for i := range all {
			if !view.Tree {
				all[i].Tree = nil
			}
		}
		return len(missing) > 0, live.JSON(w, all, unread)
	}
	if len(all)+len(unread) == 0 {
		fmt.Fprintln(problems, "no living sessions")
		return false, nil
	}
	return len(missing) > 0, live.Text(w, all, view)
}

// What a terminal does: show the other screen, and the first again; begin at the top of an empty one.
const (
	otherScreen = "\x1b[?1049h"
	firstScreen = "\x1b[?1049l"
	emptyScreen = "\x1b[H\x1b[2J"
)

// watch lists the sessions again and again, until a signal comes. On a terminal it does so on the other screen, which it
// leaves as it has found the first one.
func watch(c *cli.Context, view live.View) error {
	screen := term.IsTerminal(int(os.Stdout.Fd())) && !c.Bool("json")
	bell, err := proc.Catch(1<<(syscall.SIGINT-1) | 1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGHUP-1))
	if err != nil {
		return err
	}
	if screen {
		fmt.Fprint(os.Stdout, otherScreen)
		defer fmt.Fprint(os.Stdout, firstScreen)
	}
	for {
		var page bytes.Buffer
		out := io.Writer(os.Stdout)
		if screen {
			if _, view.Height, err = term.GetSize(int(os.Stdout.Fd())); err != nil {
				view.Height = math.MaxInt
			}
			fmt.Fprintf(&page, "%smcp-tether ps, every %v, ended by Ctrl-C: %s\n\n", emptyScreen, c.Duration("interval"), time.Now().Format(time.TimeOnly))
			out = &page
		}
		if _, err := list(c, out, view); err != nil {
			return err
		}
		lines := bytes.SplitAfter(page.Bytes(), []byte("\n"))
		if len(lines) > view.Height && screen {
			lines = append(lines[:max(view.Height-1, 0)], fmt.Appendf(nil, "%d more lines", len(lines)-view.Height))
		}
		if _, err := os.Stdout.Write(bytes.Join(lines, nil)); err != nil {
			return err
		}
		if proc.Poll([]unix.PollFd{{Fd: int32(bell), Events: unix.POLLIN}}, c.Duration("interval")) > 0 {
			return nil
		}
	}
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
