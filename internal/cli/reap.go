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

	"mcp-tether/internal/argv"
	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
	"mcp-tether/reap"
	"mcp-tether/supervise"
)

// The values that have no flag. docs/reap.md has them.
const (
	// surplusOver is how many servers of one kind a gateway may have before they are reported.
	surplusOver = 8
	// dwell is how long a server must have been dropped by its living gateway before it is ended.
	dwell = 10 * time.Second
	// reapTerm is the time from SIGTERM to SIGKILL, and from a container's stop signal to its removal.
	reapTerm = 1500 * time.Millisecond
)

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
              --unwrapped, when it is still so after 10 s)
   suspect    like severed, mark, cgroup or container, but not proven:
              never ended
   surplus    many servers of one kind under a living gateway: never
              ended

Off a terminal it is silent when there is nothing. Exit code: 0 nothing
(left), 1 findings (or survivors), 2 something could not be read.

Examples:
   mcp-tether reap                # what is there, and why
   mcp-tether reap --kill         # end what is proven
   mcp-tether reap --match 'mcp-server-' --kill --unwrapped
In a crontab:
   */5 * * * * /usr/local/bin/mcp-tether reap --kill --quiet`

var reapFlags = [...]argv.Flag{
	{Name: "kill", Usage: "end what is proven"},
	{Name: "unwrapped", Usage: "with --kill: end the severed and the dropped as well"},
	{Name: "keep-nothing", Usage: "take what dead sessions have kept for proven: what others use, browsers, MCP_TETHER_KEEP=1 and --keep"},
	{Name: "match", Kind: argv.Text, Usage: "take command lines that match `REGEXP` for MCP servers, too"},
	{Name: "config", Kind: argv.List, Usage: "read MCP servers from `FILE` (JSON or TOML; repeatable) instead of the known clients' files"},
	{Name: "session", Kind: argv.Text, Usage: "only the session with this whole `ID`"},
	{Name: "forget", Kind: argv.Text, Usage: "only remove the record of this dead `SESSION`, whatever may be left of it"},
	{Name: "engine", Env: engine.EnvURL, Kind: argv.Text, Usage: "ask the container engine at `URL` instead of the docker command's"},
	{Name: "containers", Default: "auto", Values: []string{"auto", "off"}, Kind: argv.Text,
		Usage: "containers of dead sessions: `WHICH` auto (all, where an engine is in sight) or off"},
	{Name: "timeout", Default: "1m", Kind: argv.Duration, Usage: "give up after `DURATION`, whatever was met"},
	{Name: "metrics-file", Kind: argv.Text, Usage: "write Prometheus metrics to `FILE`"},
	{Name: "quiet", Usage: "print nothing but errors and survivors"},
	{Name: "json", Usage: "print one JSON object"},
}

// reapAs is reap, for root's child where it is delegated.
func reapAs(c *cli.Context, delegated bool) error {
	if id := c.String("forget"); id != "" {
		if c.Bool("kill") {
			return usageError("--forget ends nothing, and --kill does: give one of them")
		}
		return forget(strings.ToLower(id))
	}
	o, err := reapOptions(c, delegated)
	if err != nil {
		return err
	}
	return reapPass(c, o)
}

// forget removes a record that is in the way: its engine is gone. Root asks no other users.
func forget(id string) error {
	err := reap.Forget(runtimeDir(), id)
	if errors.Is(err, reap.ErrNoRecord) && os.Getuid() == 0 {
		err = fmt.Errorf("%w; for another user's: sudo -u USER mcp-tether reap --forget %s", err, display.Text(id))
	}
	return err
}

func reapOptions(c *cli.Context, delegated bool) (reap.Options, error) {
	o := reap.Options{
		Timeout: c.Duration("timeout"),
		Kill:    c.Bool("kill"), Unwrapped: c.Bool("unwrapped"), Dwell: dwell, Runtime: runtimeDir(),
		Engines: reap.Engines{URL: c.String("engine"), None: c.String("containers") == "off"},
		Grace:   teardown.Grace{Term: reapTerm, Kill: supervise.Defaults().Grace.Kill},
	}
	if o.Timeout <= 0 {
		return o, usageError("--timeout must be more than 0")
	}
	if least := dwell + o.Grace.Term + o.Grace.Kill; !delegated && o.Kill && o.Unwrapped && o.Timeout <= least {
		return o, usageError(fmt.Sprintf("--timeout %v leaves no time to end what was dropped: give more than %v", o.Timeout, least))
	}
	if c.IsSet("session") && !session.ValidID(c.String("session")) {
		return o, usageError("--session takes a whole id, of 16 hexadecimal digits (mcp-tether ps and reap show it)")
	}
	var pattern *regexp.Regexp
	if p := c.String("match"); p != "" {
		var err error
		if pattern, err = regexp.Compile(p); err != nil {
			return o, usageError(fmt.Sprint("--match: ", err))
		}
	}
	servers, err := configured(&o, c.StringSlice("config"), delegated)
	if err != nil {
		return o, err
	}
	if o.ForUsers, err = userWords(c, delegated); err != nil {
		return o, err
	}
	o.Servers = len(servers)
	o.Rules = reap.Rules{
		Match:       clients.NewMatcher(servers, pattern).Match,
		SurplusOver: surplusOver,
		KeepNothing: c.Bool("keep-nothing"),
		Session:     strings.ToLower(c.String("session")),
	}
	return o, nil
}

// userWords are the words with which root starts the same pass as another user; none for a user that is not root.
func userWords(c *cli.Context, delegated bool) ([]string, error) {
	if os.Getuid() != 0 || delegated {
		return nil, nil
	}
	words := []string{"reap", "--json"}
	for _, name := range []string{"kill", "unwrapped", "keep-nothing", "containers", "match", "session"} {
		if c.IsSet(name) {
			words = append(words, fmt.Sprintf("--%s=%v", name, c.Value(name)))
		}
	}
	for _, name := range c.StringSlice("config") {
		file, err := filepath.Abs(name)
		if err != nil {
			return nil, fmt.Errorf("--config %s: %w", name, err)
		}
		words = append(words, "--config="+file)
	}
	return words, nil
}

// configured reads the servers in the named configuration files, or else the known clients'. A pass that root makes as another user
// may be unable to read a file that root has named. It still reads the rest. Without an answer in time the pass is incomplete.
func configured(o *reap.Options, names []string, delegated bool) ([]clients.Server, error) {
	var (
		found    []clients.Server
		warnings []string
		failed   error
	)
	warn := func(err error) { warnings = append(warnings, err.Error()) }
	if !proc.InTime(proc.ConfigsTime, func() {
		if len(names) == 0 {
			if home := clients.Home(); home != "" {
				found = clients.Known(home, warn)
			}
		}
		for _, name := range names {
			switch servers, err := clients.Named(name); {
			case err == nil:
				found = append(found, servers...)
			case delegated:
				warn(err)
			default:
				failed = err
			}
		}
	}) {
		o.Incomplete = append(o.Incomplete, "the clients' configurations: a file system did not answer in time: name those that do (--config FILE)")
		return nil, nil
	}
	o.Warnings = append(o.Warnings, warnings...)
	return found, failed
}

// errTime says that reading the /proc entry of a stuck process, or a file, does not end.
var errTime = errors.New("a process or file could not be read in time")

// passInTime makes one pass of reap within its time limit.
func passInTime(o reap.Options) (reap.Report, error) {
	var r reap.Report
	var err error
	if !proc.InTime(o.Timeout, func() { r, err = reap.Pass(o) }) {
		return reap.Report{}, errTime
	}
	return r, err
}

func reapPass(c *cli.Context, o reap.Options) error {
	r, err := passInTime(o)
	if errors.Is(err, errTime) {
		return status{exitUnread, fmt.Errorf("gave up after %v: %w: give more (--timeout), or leave out the engines (--containers off)", o.Timeout, err)}
	}
	err = reapReport(c, r, err)
	// It is told by then what became of everything, whatever holds up the history.
	reap.AddToHistory(r.Findings)
	return err
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
		fmt.Fprintln(os.Stderr, "mcp-tether: not complete:", display.Text(w))
	}
	switch {
	case c.Bool("json"):
		err = r.JSON(os.Stdout)
	case c.Bool("quiet"):
		for _, s := range r.Survivors() {
			fmt.Fprintln(os.Stderr, "mcp-tether: survived:", display.Text(s))
		}
	default:
		for _, w := range r.Warnings {
			fmt.Fprintln(os.Stderr, "mcp-tether: warning:", display.Text(w))
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
		return status{exitUnread, fmt.Errorf("the pass is not complete: %d things could not be looked after (named above)", len(r.Incomplete))}
	case r.Left() > 0:
		return status{code: exitFindings}
	}
	return nil
}
