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
	"mcp-tether/internal/display"
	"mcp-tether/internal/front"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/share"
	"mcp-tether/internal/teardown"
	"mcp-tether/reap"
	"mcp-tether/supervise"
)

const runHelp = `Starts COMMAND with this process's standard streams and ends everything
it started when the gateway (the process that spawned mcp-tether) dies,
closes standard input, stops reading standard output or sends SIGTERM,
SIGINT, SIGHUP or SIGQUIT, or when COMMAND itself exits. Other signals
are passed on.

Containers that the session creates through a Docker or podman engine
end with it, too (--containers). An engine is in sight if DOCKER_HOST, a
docker context or a usual socket names one that is there. Then your
server's DOCKER_HOST changes, to a socket of the session's own.

Exit code: COMMAND's own; 128+n if signal n ended it; 125 if mcp-tether
failed, 126 if COMMAND cannot be executed, 127 if it is not found. After
125 no server was started: standard error says why, and a client's log
has it; "mcp-tether doctor" checks the machine.

A flag wins over its environment variable. Durations are such as 500ms,
1.5s, 2m.

Examples:
   mcp-tether run -- npx -y @modelcontextprotocol/server-everything
   mcp-tether run -- docker run -i --rm mcp/fetch # with its container
   mcp-tether run --hibernate 10m -- uvx mcp-server-time
   mcp-tether run --share -- uvx mcp-server-time # for all sessions
   mcp-tether run --name files --term-grace 3s -- uvx server-files /srv`

// settings are what the flags of run come to.
type settings struct {
	// flagsOnly says that the environment is not asked.
	flagsOnly bool
	session   supervise.Options
	front     front.Options
	share     share.Options
}

// runCommand describes run. The flag parser leaves what it has read in s; without s the flags are only described.
func runCommand(s *settings) *cli.Command {
	c := command("run", nil)
	if s != nil && s.flagsOnly {
		table := slices.Clone(argv.Run[:])
		for i := range table {
			table[i].Env = ""
		}
		c.Flags = parserFlags(table)
	}
	// Everything is read in Before, which then ends the command with an error. Ahead of an action the library checks once more for
	// each flag whether it is set, with a regular expression for each name. That would cost a tenth of a millisecond at each start.
	c.Action = func(*cli.Context) error { return nil }
	c.Before = func(c *cli.Context) error {
		if err := s.read(c); err != nil {
			return err
		}
		return errRead
	}
	return c
}

// errRead says that the flags were read.
var errRead = errors.New("the flags were read")

// parse reads a command line of run, the first word of which is the program. It reports whether there is a session to run; if
// not, the user has asked for help.
func (s settings) parse(args []string, out io.Writer) (settings, bool, error) {
	err := app(out, []*cli.Command{runCommand(&s)}).Run(args)
	if errors.Is(err, errRead) {
		return s, true, nil
	}
	return s, false, err
}

// wakeTimeout bounds the handshake with a server that takes the place of another.
const wakeTimeout = 30 * time.Second

// read takes the flags.
func (s *settings) read(c *cli.Context) error {
	o := supervise.Defaults()
	o.Command, o.Name, o.Key = c.Args().Slice(), c.String("name"), c.String("exclusive")
	o.Share = os.Getenv(session.EnvShared)
	o.Behind, o.Unended = strings.CutSuffix(os.Getenv(session.EnvBehind), session.Unended)
	if len(o.Command) == 0 {
		return usageError("run needs a command, as in: mcp-tether run -- npx -y SERVER")
	}
	// A mistake is not to come to light on the day on which --share is switched on. In a shared server's own session the flags are
	// gone, and what is left may be variables that they have won over.
	if err := checkValues(c, argv.Run[:], func(f *argv.Flag) bool { return f.Share && o.Share != "" }); err != nil {
		return err
	}
	o.Grace.EOF, o.Grace.Term = c.Duration("eof-grace"), c.Duration("term-grace")
	if c.IsSet("term-grace") {
		o.Grace.Gone = o.Grace.Term
	}
	o.KeepNothing = c.Bool("keep-nothing")
	o.Keep = patterns(c.StringSlice("keep"))
	o.Containers, o.Engine = supervise.Containers(c.String("containers")), c.String("engine")
	o.HasDead, o.History = func() bool { return reap.HasDead(runtimeDir()) }, !c.Bool("no-history")
	o.Log = display.Options{File: c.String("log-file"), JSON: c.String("log-format") == "json"}
	o.Log.Level, _ = zerolog.ParseLevel(c.String("log-level"))
	var err error
	if o.Containment, err = containment(c); err != nil {
		return err
	}
	restartOn := patterns(c.StringSlice("restart-on"))
	if c.Bool("share") && len(restartOn) > 0 {
		return usageError("--restart-on is for a server of the session's own: give it without --share")
	}
	// Where a front stands anyway, reading along costs nothing.
	guard, keeps := !c.IsSet("stdout-guard") || c.Bool("stdout-guard"), !c.IsSet("keep-stderr") || c.Bool("keep-stderr")
	s.session = o
	s.front = front.Options{
		Program: os.Args[0], Words: os.Args[min(2, len(os.Args)):], Command: o.Command, Name: o.Name, Key: o.Key,
		Hibernate: c.Duration("hibernate"), Anyway: c.Bool("hibernate-anyway"), WakeTimeout: wakeTimeout,
		RestartOnCrash: c.String("on-crash") == argv.Restart, Lazy: c.Bool("lazy"), EOFGrace: o.Grace.EOF, EndLimit: o.LongestEnd() + endMargin, Log: o.Log,
		Guard: guard, KeepStderr: keeps, History: o.History, RestartOn: restartOn,
	}
	s.share = share.Options{
		Scope: c.String("share-scope"), Linger: c.Duration("share-linger"), EOFGrace: o.Grace.EOF, EndLimit: s.front.EndLimit, Guard: guard, KeepStderr: keeps,
	}
	return nil
}

// containment reads the flags about the cgroup and its limits.
func containment(c *cli.Context) (o supervise.Containment, err error) {
	o.Cgroup, o.Require = supervise.Cgroup(c.String("cgroup")), c.String("limits") == "require"
	for _, name := range []string{"memory-max", "pids-max", "cpu-max"} {
		l, wanted, err := cgroup.ParseLimit(strings.Replace(name, "-", ".", 1), c.String(name))
		if err != nil {
			return o, usageError("--" + name + ": " + err.Error())
		}
		if wanted {
			o.Limits = append(o.Limits, l)
		}
	}
	return o, nil
}

// patterns are the words of a flag without empty ones. With --keep these would match the processes that have no name.
func patterns(all []string) []string {
	return slices.DeleteFunc(all, func(glob string) bool { return glob == "" })
}

// endMargin is what the end of a server behind another process may take beyond what its session may.
const endMargin = 10 * time.Second

// sweep ends the dead sessions of this user.
func sweep() error {
	proc.CloseInherited()
	d := supervise.Defaults().Grace
	ended, err := reap.Sweep(runtimeDir(), teardown.Grace{Term: d.Term, Kill: d.Kill})
	reap.AddToHistory(ended)
	return err
}

func runtimeDir() string { return os.Getenv("XDG_RUNTIME_DIR") }
