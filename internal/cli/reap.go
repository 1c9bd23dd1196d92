package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/describe"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
	"mcp-tether/reap"
)

// Exit codes of reap. The other commands but run use them in the same sense.
const (
	exitFindings = 1 // something was found, or survived
	exitUnread   = 2 // something could not be read
)

// surplusOver is how many servers of one kind a gateway may have before they are reported.
const surplusOver = 8

const reapHelp = `Lists what outlived its session, with the evidence. With --kill it ends
what is proven:

   record     the supervisor of a recorded session is dead: its processes
              and containers
   mark       the environment names a session without supervisor and a
              gateway that is dead
   cgroup     a cgroup of ours whose session is dead
   container  a container with our label whose session is dead
   severed    never wrapped: a configured MCP server without gateway, and
              no process holds the other end of its standard input (ended
              only with --unwrapped)
   dropped    never wrapped: its gateway lives, but no process can write
              to its standard input any more (ended only with
              --unwrapped, when it is still so after --dwell)
   suspect    like severed, mark, cgroup or container, but not proven:
              never ended
   surplus    many servers of one kind under a living gateway: never
              ended

When there is nothing it says so on a terminal, and is silent elsewhere,
as from cron. Exit code: 0 nothing (left), 1 findings (or survivors),
2 something could not be read.

Examples:
   mcp-tether reap                # what is there, and why
   mcp-tether reap --kill         # end what is proven
   mcp-tether reap --match 'mcp-server-' --kill --unwrapped
In a crontab:
   */5 * * * * /usr/local/bin/mcp-tether reap --kill --quiet`

func reapCommand(as *role) *cli.Command {
	return &cli.Command{
		Name:            "reap",
		Usage:           "find and end what outlived its session",
		UsageText:       "mcp-tether reap [flags]",
		Description:     reapHelp,
		HideHelpCommand: true,
		OnUsageError:    badUsage,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "kill", DisableDefaultText: true, Usage: "end what is proven"},
			&cli.BoolFlag{Name: "unwrapped", DisableDefaultText: true, Usage: "with --kill: end the severed and the dropped as well"},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print one JSON object"},
			&cli.BoolFlag{Name: "quiet", DisableDefaultText: true, Usage: "print nothing but errors and survivors"},
			&cli.StringFlag{Name: "match", Usage: "take command lines that match `REGEXP` for MCP servers, too"},
			&cli.StringSliceFlag{Name: "config", Usage: "read MCP servers from `FILE` (JSON or TOML; repeatable) instead of the known gateways' files"},
			&cli.StringSliceFlag{Name: "home", Usage: "also read the known gateways' files in `DIR`, for its owner's processes (repeatable)"},
			&cli.StringFlag{Name: "session", Usage: "only the session with this whole `ID`"},
			&cli.StringFlag{Name: "forget", Usage: "only remove the record of this dead `SESSION`, whatever may be left of it"},
			&cli.StringFlag{Name: "engine", EnvVars: []string{engine.EnvURL},
				Usage: "ask the container engine at `URL` instead of the docker command's"},
			&cli.StringFlag{Name: "containers", Value: "auto", Usage: "containers of dead sessions: `WHICH` auto (all, where an engine is in sight) or off"},
			&cli.DurationFlag{Name: "min-age", Usage: "spare what is younger than `DURATION`"},
			&cli.IntFlag{Name: "surplus", Value: surplusOver, Usage: "report more than `N` servers of one kind under one gateway"},
			&cli.DurationFlag{Name: "dwell", Value: 10 * time.Second, Usage: "`DURATION` for which a server must have been dropped by its living gateway before it is ended"},
			&cli.DurationFlag{Name: "term-grace", Value: 1500 * time.Millisecond, Usage: "`DURATION` from SIGTERM to SIGKILL, and from a container's stop signal to its removal"},
			&cli.DurationFlag{Name: "kill-timeout", Value: 5 * time.Second, Usage: "`DURATION` of repeating SIGKILL before the survivors are named"},
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "give up after `DURATION`, whatever was met"},
			&cli.StringSliceFlag{Name: reap.SpareFlag, Hidden: true},
			&cli.StringFlag{Name: "metrics-file", Usage: "write Prometheus metrics to `FILE`"},
		},
		Action: func(c *cli.Context) error {
			if id := c.String("forget"); id != "" {
				return forget(strings.ToLower(id))
			}
			o, err := reapOptions(c, as != nil && as.delegated)
			if err != nil {
				return err
			}
			return reapPass(c, o)
		},
	}
}

// forget removes a record that is in the way: its engine is gone. Root asks no other users.
func forget(id string) error {
	err := reap.Forget(runtimeDir(), id)
	if errors.Is(err, reap.ErrNoRecord) && os.Getuid() == 0 {
		err = fmt.Errorf("%w of root (for another user's: sudo -u USER mcp-tether reap --forget %s)", err, describe.Text(id))
	}
	return err
}

func reapOptions(c *cli.Context, delegated bool) (reap.Options, error) {
	o := reap.Options{
		Delegated: delegated, Timeout: c.Duration("timeout"),
		Kill: c.Bool("kill"), Unwrapped: c.Bool("unwrapped"), Dwell: c.Duration("dwell"), Runtime: runtimeDir(),
		Reach: reap.Reach{Engine: c.String("engine"), None: c.String("containers") == "off"},
		Grace: teardown.Grace{Term: c.Duration("term-grace"), Kill: c.Duration("kill-timeout")},
	}
	if c.Args().Present() {
		return o, usageError("reap takes no arguments, got " + c.Args().First())
	}
	if which := c.String("containers"); which != "auto" && which != "off" {
		return o, usageError("--containers " + which + " is none of auto, off")
	}
	if o.Grace.Term < 0 || o.Grace.Kill < 0 || c.Duration("min-age") < 0 || c.Duration("dwell") < 0 || c.Duration("timeout") <= 0 || c.Int("surplus") < 1 {
		return o, usageError("times must not be negative, --timeout and --surplus must be more than 0")
	}
	if ending := o.Grace.Term + o.Grace.Kill; !delegated && o.Kill && o.Unwrapped && o.Timeout-o.Dwell <= ending {
		return o, usageError(fmt.Sprintf("--timeout %v leaves no time for --dwell %v, and %v to end what was dropped: give more", o.Timeout, o.Dwell, ending))
	}
	if c.IsSet("session") && !session.ValidID(c.String("session")) {
		return o, usageError("--session takes a whole id, of 16 hexadecimal digits (mcp-tether ps and reap show it)")
	}
	var pattern *regexp.Regexp
	if p := c.String("match"); p != "" {
		var err error
		if pattern, err = regexp.Compile(p); err != nil {
			return o, fmt.Errorf("--match: %w", err)
		}
	}
	files, err := configured(c.StringSlice("config"), c.StringSlice("home"), delegated, unreadable(&o))
	if err != nil {
		return o, err
	}
	if o.ForUsers, err = userWords(c, delegated); err != nil {
		return o, err
	}
	for i := range files {
		o.Servers += len(files[i].Servers)
	}
	matcher := clients.NewMatcher(files, pattern)
	o.Rules = reap.Rules{
		Match:       matcher.Match,
		SurplusOver: c.Int("surplus"),
		MinAge:      uint64(c.Duration("min-age").Seconds() * proc.TicksPerSecond),
		Session:     strings.ToLower(c.String("session")),
		Spare:       c.StringSlice(reap.SpareFlag),
	}
	return o, nil
}

// unreadable takes what is wrong with configurations. With one that could not be read in time the pass is incomplete.
func unreadable(o *reap.Options) func(error) {
	return func(err error) {
		if errors.Is(err, clients.ErrLate) {
			o.Incomplete = append(o.Incomplete, err.Error())
			return
		}
		o.Warnings = append(o.Warnings, err.Error())
	}
}

// passFlags are the flags that mean the same in the passes that root makes as other users.
var passFlags = [...]string{"containers", "match", "session", "min-age", "surplus", "dwell", "term-grace", "kill-timeout"}

// userWords are the words with which root starts the same pass as another user; none for a user that is not root.
func userWords(c *cli.Context, delegated bool) ([]string, error) {
	if os.Getuid() != 0 || delegated {
		return nil, nil
	}
	words := []string{"reap", "--json"}
	for _, name := range []string{"kill", "unwrapped"} {
		if c.Bool(name) {
			words = append(words, "--"+name)
		}
	}
	for _, name := range passFlags {
		if c.IsSet(name) {
			words = append(words, fmt.Sprintf("--%s=%v", name, c.Value(name)))
		}
	}
	for _, flag := range []string{"config", "home"} {
		for _, name := range c.StringSlice(flag) {
			file, err := filepath.Abs(name)
			if err != nil {
				return nil, fmt.Errorf("--%s %s: %w", flag, name, err)
			}
			words = append(words, "--"+flag+"="+file)
		}
	}
	return words, nil
}

// configured reads the named configuration files, or else the known gateways'. A pass that root makes as another user
// may be unable to read a file that root has named. It still reads the rest.
func configured(names, homes []string, delegated bool, warn func(error)) ([]clients.File, error) {
	if len(names) == 0 {
		return clients.Known(clients.Homes(homes, warn), warn), nil
	}
	var out []clients.File
	for _, name := range names {
		file, err := clients.Named(name)
		if err != nil && delegated {
			warn(err)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, file)
	}
	return out, nil
}

// reapPass runs one pass within the time limit, because reading the /proc entry of a stuck process may never end.
func reapPass(c *cli.Context, o reap.Options) error {
	type result struct {
		report reap.Report
		err    error
	}
	done := make(chan result, 1)
	go func() {
		r, err := reap.Pass(o)
		done <- result{r, err}
	}()
	select {
	case r := <-done:
		err := reapReport(c, r.report, r.err)
		// It is told by then what became of everything, whatever holds up the history.
		reap.Tell(r.report.Findings)
		return err
	case <-time.After(c.Duration("timeout")):
		return status{exitUnread, fmt.Errorf("gave up after %v: a process or file could not be read in time", c.Duration("timeout"))}
	}
}

func reapReport(c *cli.Context, r reap.Report, failure error) error {
	if failure != nil && len(r.Findings) == 0 {
		if c.Bool("json") {
			r.Incomplete = append(r.Incomplete, failure.Error())
			_ = r.JSON(os.Stdout)
		}
		return status{exitUnread, failure}
	}
	var err error
	for _, w := range r.Incomplete {
		fmt.Fprintln(os.Stderr, "mcp-tether: not complete:", describe.Text(w))
	}
	switch {
	case c.Bool("json"):
		err = r.JSON(os.Stdout)
	case c.Bool("quiet"):
		for _, s := range r.Survivors() {
			fmt.Fprintln(os.Stderr, "mcp-tether: survived:", describe.Text(s))
		}
	default:
		for _, w := range r.Warnings {
			fmt.Fprintln(os.Stderr, "mcp-tether: warning:", describe.Text(w))
		}
		err = r.Text(os.Stdout)
		if len(r.Findings) == 0 && term.IsTerminal(int(os.Stderr.Fd())) {
			l := r.Looked
			fmt.Fprintf(os.Stderr, "nothing found in %s, %s, %s and the command lines of %s\n",
				counted(l.Processes, "process"), counted(l.Records, "record"), counted(l.Engines, "engine"), counted(l.Servers, "configured server"))
		}
	}
	if file := c.String("metrics-file"); file != "" && err == nil {
		err = r.Metrics(file)
	}
	switch {
	case failure != nil:
		return status{exitUnread, failure}
	case err != nil:
		return status{exitUnread, err}
	case len(r.Incomplete) > 0:
		return status{exitUnread, fmt.Errorf("the pass is not complete: %d things could not be looked after", len(r.Incomplete))}
	case r.Left() > 0:
		return status{code: exitFindings}
	}
	return nil
}
