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

	"mcp-tether/internal/argv"
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

// Exit codes of all commands but run.
const (
	exitFindings = 1 // something was found, or survived, or the answer was no
	exitUnread   = 2 // something could not be read or done
)

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
func app(out io.Writer, commands []*cli.Command) *cli.App {
	cli.HelpPrinter = printHelp
	return &cli.App{
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
		Commands:                  commands,
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return noCommand(c.App, name)
			}
			return cli.ShowAppHelp(c)
		},
	}
}

// execute plays the part of any command but run.
func execute(args []string, delegated bool) int {
	var behind []string
	if i := slices.Index(args, "--"); i > 0 && args[1] == "wrap" {
		args, behind = args[:i], append([]string{}, args[i+1:]...)
	}
	all, failure := commands(delegated, behind), supervise.ExitFailure
	if len(args) > 1 && slices.ContainsFunc(all, func(c *cli.Command) bool { return c.Name == args[1] }) {
		failure = exitUnread
	}
	return outcome(app(os.Stdout, all).Run(args), failure)
}

// outcome reports what came of a command line, and gives the exit code: failure for an error that has none.
func outcome(err error, failure int) int {
	var s status
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		return report(s.code, s.err)
	}
	return report(failure, err)
}

// usageError is a mistake in the command line.
type usageError string

func (e usageError) Error() string { return string(e) }

// badUsage makes the flag parser's errors readable. The parser writes flags with one dash, and does not say that a
// duration needs a unit.
func badUsage(c *cli.Context, err error, _ bool) error {
	text := strings.Replace(strings.Replace(err.Error(), "flag -", "flag --", 1), "argument: -", "argument: --", 1)
	if _, unknown, found := strings.Cut(text, "flag provided but not defined: -"); found {
		text = "no such flag: --" + strings.TrimLeft(unknown, "-")
		if c.Command != nil {
			text += "; did you mean " + cli.SuggestFlag(c.Command.Flags, unknown, true) + "?"
		}
	}
	name := c.App.Name
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != name {
		name += " " + c.Command.Name
	}
	isDuration := func(f argv.Flag) bool { return f.Kind == argv.Duration && strings.Contains(text, "flag --"+f.Name+":") }
	if c.Command != nil && slices.ContainsFunc(tableOf(c.Command.Name), isDuration) {
		text += "; a duration needs a unit, such as 500ms, 1.5s or 2m"
	}
	return usageError(text + " (see " + name + " --help)")
}
