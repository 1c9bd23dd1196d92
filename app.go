package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"mcp-tether/supervise"
)

// version is set by the linker.
var version = "dev"

// status is an exit code that is not a failure to explain; err, if any, was not printed yet.
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

// command parses the command line and runs it.
func command(args []string, as *role) int {
	app := &cli.App{
		Name:                      "mcp-tether",
		Usage:                     "ends stdio MCP servers with their session, whatever they started",
		Version:                   version,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		Writer:                    os.Stdout,
		ErrWriter:                 os.Stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return err },
		Commands:                  []*cli.Command{runCommand(as), reapCommand(), psCommand(), stopCommand()},
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return usageError("no such command: " + name)
			}
			return cli.ShowAppHelp(c)
		},
	}
	failure := exitLook
	if len(args) > 1 && args[1] == "run" {
		// Standard output belongs to the server.
		app.Writer, failure = os.Stderr, supervise.ExitFailure
	}
	err := app.Run(args)
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

func (e usageError) Error() string { return string(e) + " (see mcp-tether --help)" }
