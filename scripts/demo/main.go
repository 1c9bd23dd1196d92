// Command demo shows what mcp-tether is for, on this machine, with nothing but Go installed.
//
// A throw-away gateway starts an MCP server. The server starts a worker and a helper. The helper detaches itself the
// way daemons do: new terminal session, double fork, empty environment, directory /. Then the gateway is SIGKILLed.
// This is done once bare and once with mcp-tether in front of the server. All the other parts are played by e2e/fixture.
//
//	go run ./scripts/demo bin/mcp-tether
//
// It exits 0 only if the bare run left something and the tethered run left nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"mcp-tether/e2e/stage"
)

const (
	// What the bare run has left by then is not going to end by itself.
	barePatience = 2 * time.Second
	// Far longer than all the grace periods of mcp-tether together.
	tetheredPatience = 15 * time.Second
)

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: demo PATH-OF-MCP-TETHER")
	}
	tether, err := filepath.Abs(args[0])
	if err != nil {
		return fmt.Errorf("find %s: %w", args[0], err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cast, tidy, err := stage.Cast("demo", tether)
	if err != nil {
		return err
	}
	defer tidy()
	return compare(ctx, cast)
}

func compare(ctx context.Context, cast stage.Programs) error {
	fmt.Println("A gateway runs an MCP server, which has a worker and a helper that detaches")
	fmt.Println("itself. The gateway is SIGKILLed, and what it started is watched.")

	fmt.Println("\nbare:")
	bare, err := perform(ctx, cast, barePatience)
	if err != nil {
		return fmt.Errorf("bare run: %w", err)
	}
	printRun(os.Stdout, bare)

	fmt.Println("\ntethered, with mcp-tether run in front of the server:")
	// At level info mcp-tether reports how the session ended; by default it would be silent.
	tethered, err := perform(ctx, cast, tetheredPatience, cast.Tether, "run", "--log-level=info", "--")
	if err != nil {
		return fmt.Errorf("tethered run: %w", err)
	}
	printRun(os.Stdout, tethered)
	printSummary(os.Stdout, bare, tethered)

	if bare.left() == 0 {
		return errors.New("the bare run left nothing, so this shows nothing")
	}
	if n := tethered.left(); n > 0 {
		return fmt.Errorf("the tethered run left %d behind", n)
	}
	return nil
}
