package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/supervise"
)

// The linker sets these: the version, and the commit that it was made from with its date.
var version, commit, date = "dev", "", ""

// fullVersion is what --version prints.
func fullVersion() string {
	if commit == "" {
		return version + " (" + runtime.Version() + ")"
	}
	return version + " (" + commit + ", " + date + ", " + runtime.Version() + ")"
}

// status is an exit code as an error. err, if not nil, explains it and was not printed yet.
type status struct {
	code int
	err  error
}

func (s status) Error() string {
	if s.err == nil {
		return fmt.Sprint("exit ", s.code)
	}
	return s.err.Error()
}

func (s status) Unwrap() error { return s.err }

// app describes the program to the flag parser. Help and version go to out.
func app(args []string, out io.Writer, as *role) *cli.App {
	a := &cli.App{
		Name:                      "mcp-tether",
		Usage:                     "ends stdio MCP servers with their session, whatever they started",
		Version:                   fullVersion(),
		HideHelpCommand:           true,
		Flags:                     []cli.Flag{cli.HelpFlag}, // with a command help of ours the library adds none
		DisableSliceFlagSeparator: true,
		Writer:                    out,
		ErrWriter:                 os.Stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              badUsage,
		Commands:                  commands(args, as),
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return noCommand(c.App, name)
			}
			return cli.ShowAppHelp(c)
		},
	}
	if len(args) > 1 && args[1] == "run" && out == os.Stdout {
		// Standard output belongs to the server.
		a.Writer = os.Stderr
	}
	return a
}

// commands describes the commands. The start of every server waits for this, so run leaves out the other commands.
func commands(args []string, as *role) []*cli.Command {
	if len(args) > 1 && args[1] == "run" {
		return []*cli.Command{runCommand(as)}
	}
	return []*cli.Command{runCommand(as), reapCommand(as), psCommand(), stopCommand(as), restartCommand(), historyCommand(), wrapCommand(), unwrapCommand(), doctorCommand(), cacheCommand(),
		completionCommand(), completeCommand(), helpCommand(), versionCommand()}
}

// command parses the command line and runs it.
func command(args []string, as *role) int {
	failure := supervise.ExitFailure
	switch {
	case len(args) < 2:
	case slices.Contains([]string{"reap", "ps", "stop", "restart", "history", "wrap", "unwrap", "doctor", "cache", "help", "version", "completion"}, args[1]):
		failure = exitUnread
	}
	cli.HelpPrinter = printHelp
	err := app(args, os.Stdout, as).Run(args)
	var s status
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		return exit(s.code, s.err)
	}
	return exit(failure, err)
}

// usageError is a mistake in the command line.
type usageError string

func (e usageError) Error() string { return string(e) }

// isDuration reports whether the flag parser's text is about the value of a flag that is a duration.
func isDuration(c *cli.Context, text string) bool {
	_, name, _ := strings.Cut(text, "flag ")
	name, _, _ = strings.Cut(strings.TrimLeft(name, "-"), ":")
	for _, f := range c.Command.Flags {
		if _, ok := f.(*cli.DurationFlag); ok && slices.Contains(f.Names(), name) {
			return true
		}
	}
	return false
}

// badUsage makes the flag parser's errors readable. The parser writes flags with one dash, and does not say that a
// duration needs a unit.
func badUsage(c *cli.Context, err error, _ bool) error {
	text := strings.Replace(strings.Replace(err.Error(), "flag -", "flag --", 1), "argument: -", "argument: --", 1)
	if _, unknown, found := strings.Cut(text, "flag provided but not defined: -"); found {
		var known []string
		if c.Command != nil {
			for _, f := range c.Command.Flags {
				known = append(known, "--"+f.Names()[0])
			}
		}
		text = "no such flag: --" + unknown + didYouMean("--"+unknown, known)
	}
	name := c.App.Name
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != name {
		name += " " + c.Command.Name
	}
	if isDuration(c, text) {
		text += "; a duration needs a unit, such as 500ms, 1.5s or 2m"
	}
	return usageError(text + " (see " + name + " --help)")
}
