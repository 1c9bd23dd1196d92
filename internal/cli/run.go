package cli

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"mcp-tether/cgroup"
	"mcp-tether/internal/argv"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/eventlog"
	"mcp-tether/internal/front"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/share"
	"mcp-tether/internal/teardown"
	"mcp-tether/internal/waiting"
	"mcp-tether/reap"
	"mcp-tether/supervise"
)

// role is what another process of ours asked this one to do; nil when a user called us.
type role struct {
	// page is that of the session that this process prepares; nil for any other.
	page *waiting.Page
	// parsed, if not nil, gets the options, and nothing is run.
	parsed *supervise.Options
	// checks says that the flags about sharing must be valid as well, which otherwise only the host sees to.
	checks bool
	// host is what a host of a shared server, or the process that starts it, got from its parent; nil for any other.
	host *argv.Host
	// front says that the process is to stand before a server that may be replaced.
	front bool
	// finder is that of a front before a shared server.
	finder *share.Finder
	// delegated says that root has started us, as a user, to do something for that user.
	delegated bool
}

const runHelp = `Starts COMMAND with this process's standard streams and ends everything
it started when the gateway (the process that spawned mcp-tether) dies,
closes standard input, stops reading standard output or sends SIGTERM,
SIGINT, SIGHUP or SIGQUIT, or when COMMAND itself exits. Other signals
are passed on.

Containers that the session creates through a Docker or podman engine
end with it, too (--containers). With --hibernate an idle server is
ended, and started again by the next message. With --lazy a server is
not started before it is needed. With --share sessions of the same
command, directory and environment talk to one server.

Exit code: COMMAND's own; 128+n if signal n ended it; 125 if mcp-tether
failed, 126 if COMMAND cannot be executed, 127 if it is not found.

A flag wins over its environment variable. Durations are such as 500ms,
1.5s, 2m.

Examples:
   mcp-tether run -- npx -y @modelcontextprotocol/server-everything
   mcp-tether run -- docker run -i --rm mcp/fetch # with its container
   mcp-tether run --hibernate 10m -- uvx mcp-server-time
   mcp-tether run --share -- uvx mcp-server-time # for all sessions
   mcp-tether run --name files --term-grace 3s -- uvx server-files /srv
   mcp-tether run --log-level info --log-file /var/log/x -- ./server`

func runCommand(as *role) *cli.Command {
	return &cli.Command{
		Name:            "run",
		Usage:           "start a server and end all of it with its session",
		UsageText:       "mcp-tether run [flags] -- COMMAND [ARG...]",
		Description:     runHelp,
		HideHelpCommand: true,
		OnUsageError:    badUsage,
		Flags:           unlessEmpty(runFlags()),
		// Everything is done in Before, which then ends the command with an error. Ahead of an action the library checks once
		// more for each flag whether it is set, with a regular expression for each name. That would cost a tenth of a
		// millisecond at each start.
		Action: func(*cli.Context) error { return nil },
		Before: func(c *cli.Context) error {
			opts, err := options(c)
			if err != nil {
				return err
			}
			if as != nil && as.parsed != nil && !as.checks {
				*as.parsed = opts
				return nil
			}
			// Also without --share: a mistake is not to come to light on the day on which it is switched on. In a shared server's
			// own session the flags are gone, and what is left may be variables that they have won over.
			if err := sharing(c, opts).Validate(); err != nil && opts.Share == "" {
				return usageError(err.Error())
			}
			if as != nil && as.parsed != nil {
				*as.parsed = opts
				return nil
			}
			if as != nil && as.host != nil {
				return hosted(c, opts, as)
			}
			if as != nil && as.front {
				o := fronting(c, opts)
				o.Finder = as.finder
				code, err := front.Run(o)
				return status{code, err}
			}
			code, err := supervised(opts, as)
			return status{code, err}
		},
	}
}

func runFlags() []cli.Flag {
	d := supervise.Defaults()
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "`LABEL` for logs and ps", EnvVars: []string{"MCP_TETHER_NAME"}},
		&cli.DurationFlag{Name: "eof-grace", Value: d.EOFGrace, EnvVars: []string{"MCP_TETHER_EOF_GRACE"},
			Usage: "`DURATION` that the server may go on after standard input was closed"},
		&cli.DurationFlag{Name: "term-grace", Value: d.TermGrace, EnvVars: []string{"MCP_TETHER_TERM_GRACE"},
			Usage: "`DURATION` from SIGTERM to SIGKILL"},
		&cli.DurationFlag{Name: "kill-timeout", Value: d.KillTimeout, EnvVars: []string{"MCP_TETHER_KILL_TIMEOUT"},
			Usage: "`DURATION` of repeating SIGKILL before the survivors are named"},
		&cli.StringSliceFlag{Name: "keep", EnvVars: []string{"MCP_TETHER_KEEP_MATCH"},
			Usage: "leave descendants alone whose command matches `GLOB` (repeatable), as with MCP_TETHER_KEEP=1 in their environment"},
		&cli.StringFlag{Name: "cgroup", Value: "auto", EnvVars: []string{"MCP_TETHER_CGROUP"},
			Usage: "use a cgroup v2 leaf: `MODE` auto, off or require"},
		limitFlag("memory-max", "end the server when it and all that it started need more memory than `SIZE`, such as 500M, 2G or 10%"),
		limitFlag("memory-high", "slow the server down and take memory from it above `SIZE`"),
		limitFlag("pids-max", "at most `N` processes and threads"),
		limitFlag("cpu-max", "at most `PERCENT` of one processor, such as 50% or 200%"),
		&cli.StringFlag{Name: "limits", Value: "try", EnvVars: []string{"MCP_TETHER_LIMITS"},
			Usage: "where these limits cannot be enforced, `WHAT`: try (start all the same, and say so) or require (refuse)"},
		&cli.StringFlag{Name: "scope", Value: "auto", EnvVars: []string{"MCP_TETHER_SCOPE"},
			Usage: "ask systemd for a cgroup that can have limits: `WHEN` auto (the own one cannot) or off"},
		&cli.StringFlag{Name: "containers", Value: "auto", EnvVars: []string{"MCP_TETHER_CONTAINERS"},
			Usage: "end containers that the session created: `WHICH` auto (all, where an engine is in sight), all (and a warning where none is) or off"},
		&cli.StringFlag{Name: "engine", EnvVars: []string{engine.EnvURL},
			Usage: "container engine `URL` instead of the one the docker command would use"},
		&cli.DurationFlag{Name: "hibernate", EnvVars: []string{argv.EnvHibernate},
			Usage: "end the server after `DURATION` without a message or anything pending; the next message starts it again"},
		&cli.BoolFlag{Name: "hibernate-anyway", DisableDefaultText: true, EnvVars: []string{"MCP_TETHER_HIBERNATE_ANYWAY"},
			Usage: "end an idle server whatever its processes do, have open or have locked, and with containers that run"},
		&cli.BoolFlag{Name: "lazy", DisableDefaultText: true, EnvVars: []string{argv.EnvLazy},
			Usage: "start the server when it is needed: the handshake and the first lists come from what earlier sessions saw"},
		&cli.DurationFlag{Name: "wake-timeout", Value: 30 * time.Second, EnvVars: []string{"MCP_TETHER_WAKE_TIMEOUT"},
			Usage: "`DURATION` in which a woken server, or one that takes the place of another, must have answered the handshake"},
		&cli.StringFlag{Name: "max-message", Value: "64MiB", EnvVars: []string{"MCP_TETHER_MAX_MESSAGE"},
			Usage: "longest message with --hibernate, --lazy, --share and others that read them, a `SIZE` such as 64MiB"},
		&cli.StringFlag{Name: "on-crash", Value: "end", EnvVars: []string{argv.EnvOnCrash},
			Usage: "when the server ends by itself, `WHAT`: end (the session), or restart (the server, with the next message)"},
		&cli.BoolFlag{Name: "stdout-guard", DisableDefaultText: true, EnvVars: []string{argv.EnvGuard},
			Usage: "lines on the server's standard output that are no messages go to standard error"},
		&cli.BoolFlag{Name: "keep-stderr", DisableDefaultText: true, EnvVars: []string{argv.EnvKeepErr},
			Usage: "errors for lost calls quote the last line that the server wrote to standard error; history has the last 20"},
		&cli.StringFlag{Name: "log-level", Value: "warn", EnvVars: []string{"MCP_TETHER_LOG_LEVEL"},
			Usage: "`LEVEL` trace, debug, info, warn or error"},
		&cli.StringFlag{Name: "log-format", Value: "text", EnvVars: []string{"MCP_TETHER_LOG_FORMAT"}, Usage: "`FORMAT` text or json"},
		&cli.StringFlag{Name: "log-file", EnvVars: []string{"MCP_TETHER_LOG_FILE"},
			Usage: "append the log to `FILE` instead of standard error"},
		&cli.StringFlag{Name: "exclusive", EnvVars: []string{"MCP_TETHER_EXCLUSIVE"},
			Usage: "wait until an ending session of the same gateway with this `KEY` is entirely gone"},
		&cli.BoolFlag{Name: "share", DisableDefaultText: true, EnvVars: []string{argv.EnvShare},
			Usage: "share one server with the other sessions that have the same command, directory and environment"},
		&cli.StringFlag{Name: "share-scope", Value: argv.ScopeGateway, EnvVars: []string{argv.EnvScope},
			Usage: "share among the sessions of one gateway or of all gateways of the user: `SCOPE` gateway or user"},
		&cli.DurationFlag{Name: "share-linger", Value: 10 * time.Minute, EnvVars: []string{"MCP_TETHER_SHARE_LINGER"},
			Usage: "`DURATION` that a shared server lives on after its last session has left"},
		&cli.IntFlag{Name: "share-max", EnvVars: []string{"MCP_TETHER_SHARE_MAX"},
			Usage: "at most `N` sessions for each shared server, then another server is started; 0 for no limit"},
		&cli.StringSliceFlag{Name: "share-ignore-env", EnvVars: []string{argv.EnvIgnored},
			Usage: "share also where the variable `NAME` differs (repeatable); the server has that of its first session"},
		&cli.StringFlag{Name: "share-asks", Value: share.AsksCertain, EnvVars: []string{"MCP_TETHER_SHARE_ASKS"},
			Usage: "`WHEN` a shared server may ask a session: certain, or in-call for one that is known to ask only within a call"},
		&cli.BoolFlag{Name: "no-history", DisableDefaultText: true, EnvVars: []string{"MCP_TETHER_NO_HISTORY"},
			Usage: "leave the session out of what mcp-tether history shows"},
	}
}

func limitFlag(name, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, EnvVars: []string{"MCP_TETHER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}}
}

// limiting reads the flags about limits.
func limiting(c *cli.Context) (o supervise.Limiting, err error) {
	o.Require, o.NoScope = c.String("limits") == "require", c.String("scope") == "off"
	for _, name := range []string{"memory-max", "memory-high", "pids-max", "cpu-max"} {
		l, wanted, err := cgroup.ParseLimit(strings.Replace(name, "-", ".", 1), c.String(name))
		if err != nil {
			return o, usageError("--" + name + ": " + err.Error())
		}
		if wanted {
			o.Limits = append(o.Limits, l)
		}
	}
	if !o.Require && c.String("limits") != "try" {
		return o, usageError("--limits " + c.String("limits") + " is none of try, require")
	}
	if !o.NoScope && c.String("scope") != "auto" {
		return o, usageError("--scope " + c.String("scope") + " is none of auto, off")
	}
	return o, nil
}

// unlessEmpty takes away the variables of texts that are set but empty, as launchers and unit files leave them. The
// library passes over empty ones of other types.
func unlessEmpty(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		if text, ok := f.(*cli.StringFlag); ok && len(text.EnvVars) > 0 {
			if value, set := os.LookupEnv(text.EnvVars[0]); set && value == "" {
				text.EnvVars = nil
			}
		}
	}
	return flags
}

// patterns are those of --keep without empty ones. These would match the processes that have no name.
func patterns(all []string) []string {
	return slices.DeleteFunc(all, func(glob string) bool { return glob == "" })
}

// options reads the flags of run.
func options(c *cli.Context) (supervise.Options, error) {
	o := supervise.Options{
		Command:     c.Args().Slice(),
		Name:        c.String("name"),
		EOFGrace:    c.Duration("eof-grace"),
		TermGrace:   c.Duration("term-grace"),
		KillTimeout: c.Duration("kill-timeout"),
		Keep:        patterns(c.StringSlice("keep")),
		Cgroup:      supervise.Cgroup(c.String("cgroup")),
		Key:         c.String("exclusive"),
		Share:       os.Getenv(session.EnvShared),
		Containers:  supervise.Containers(c.String("containers")),
		Engine:      c.String("engine"),
		HasDead:     func() bool { return reap.HasDead(runtimeDir()) },
		Behind:      os.Getenv(session.EnvBehind),
		History:     !c.Bool("no-history"),
		Log:         eventlog.Options{File: c.String("log-file")},
	}
	if o.GoneGrace = supervise.Defaults().GoneGrace; c.IsSet("term-grace") {
		o.GoneGrace = o.TermGrace
	}
	if len(o.Command) == 0 {
		return o, usageError("run needs a command, as in: mcp-tether run -- npx -y SERVER")
	}
	level, err := zerolog.ParseLevel(c.String("log-level"))
	if err != nil || c.String("log-level") == "" || level > zerolog.ErrorLevel {
		return o, usageError("--log-level " + c.String("log-level") + " is none of trace, debug, info, warn, error")
	}
	o.Log.Level = level
	switch f := c.String("log-format"); f {
	case "json":
		o.Log.JSON = true
	case "text":
	default:
		return o, usageError("--log-format " + f + " is none of text, json")
	}
	if _, err := parseSize(c.String("max-message")); err != nil {
		return o, usageError("--max-message: " + err.Error())
	}
	if o.Limiting, err = limiting(c); err != nil {
		return o, err
	}
	if err := o.Validate(); err != nil {
		return o, err
	}
	if err := supervise.ValidateDuration("hibernate", c.Duration("hibernate")); err != nil {
		return o, err
	}
	return o, fronting(c, o).Validate()
}

// fronting are the options of a front.
func fronting(c *cli.Context, o supervise.Options) front.Options {
	return front.Options{
		Program: os.Args[0], Words: os.Args[min(2, len(os.Args)):], Command: o.Command, Name: o.Name, Key: o.Key,
		Hibernate: c.Duration("hibernate"), Anyway: c.Bool("hibernate-anyway"), WakeTimeout: c.Duration("wake-timeout"), MaxMessage: longestMessage(c),
		OnCrash: front.OnCrash(c.String("on-crash")), Lazy: c.Bool("lazy"), EOFGrace: o.EOFGrace, EndLimit: o.LongestEnd() + endMargin, Log: o.Log,
		Guard: c.Bool("stdout-guard"), KeepStderr: c.Bool("keep-stderr"), History: o.History,
	}
}

// longestMessage is the value of --max-message, which options has found to be a size.
func longestMessage(c *cli.Context) int64 {
	size, _ := parseSize(c.String("max-message"))
	return size
}

// supervised runs in the role that was asked for. Without an entry before the runtime, one process does everything.
func supervised(opts supervise.Options, as *role) (int, error) {
	if as == nil || as.page == nil {
		return supervise.Alone(opts)
	}
	return supervise.Start(opts, as.page, len(os.Args)-len(opts.Command))
}

// hosted is the host of a shared server, or the process that starts it.
func hosted(c *cli.Context, opts supervise.Options, as *role) error {
	o := sharing(c, opts)
	o.Host, o.Program, o.Words = *as.host, os.Args[0], os.Args[4:]
	if o.Launches {
		return share.Launch(o)
	}
	return share.Serve(o)
}

// sharing reads the flags of a shared server.
func sharing(c *cli.Context, opts supervise.Options) share.Options {
	return share.Options{
		Scope: c.String("share-scope"), Asks: c.String("share-asks"), Linger: c.Duration("share-linger"), Max: c.Int("share-max"),
		MaxMessage: longestMessage(c), EOFGrace: opts.EOFGrace, EndLimit: opts.LongestEnd() + endMargin,
		Guard: c.Bool("stdout-guard"), KeepStderr: c.Bool("keep-stderr"),
	}
}

// endMargin is what the end of a server behind another process may take beyond what its session may.
const endMargin = 10 * time.Second

// parse reads the options in a command line and runs nothing. checks is as in role.
func parse(args []string, checks bool) (supervise.Options, error) {
	opts := supervise.Defaults()
	err := app(args, io.Discard, &role{parsed: &opts, checks: checks}).Run(args)
	if errors.Is(err, status{}) {
		err = nil
	}
	return opts, err
}

// sweep ends the dead sessions of this user.
func sweep() error {
	proc.CloseInherited()
	d := supervise.Defaults()
	ended, err := reap.Sweep(runtimeDir(), teardown.Grace{Term: d.TermGrace, Kill: d.KillTimeout})
	reap.Tell(ended)
	return err
}

func runtimeDir() string { return os.Getenv("XDG_RUNTIME_DIR") }
