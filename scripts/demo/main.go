// Command demo shows what mcp-tether is for, on this machine, with nothing but Go installed.
//
// A throw-away gateway starts an MCP server. The server starts a worker and a helper. The helper detaches itself the
// way daemons do: new terminal session, double fork, empty environment, directory /. Then the gateway is SIGKILLed.
// This is done once bare and once with mcp-tether in front of the server. Then many idle sessions are weighed. All the
// other parts are played by e2e/fixture.
//
//	go run ./scripts/demo bin/mcp-tether
//
// It exits 0 only if the bare run left something, the tethered run left nothing, and sleeping sessions weigh least.
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
	if err := compare(ctx, cast); err != nil {
		return err
	}
	return compareWeights(cast)
}

// compareWeights shows what idle sessions hold: bare, tethered, and tethered with their servers asleep.
func compareWeights(cast stage.Programs) error {
	fmt.Printf("\n%d idle sessions of a small server, and all their processes:\n", many)
	var all []weight
	for _, k := range []struct {
		kind    string
		each    int
		wrapper []string
	}{
		{"bare", 1, nil},
		{"mcp-tether run", 3, []string{cast.Tether, "run", "--no-history", "--"}},
		{"mcp-tether run --hibernate 1s", 1, []string{cast.Tether, "run", "--no-history", "--hibernate=1s", "--"}},
	} {
		w, err := weigh(cast, k.kind, k.each, k.wrapper...)
		if err != nil {
			return fmt.Errorf("weigh sessions: %w", err)
		}
		all = append(all, w)
	}
	printWeights(os.Stdout, all)
	if asleep := all[2].memory; asleep >= all[0].memory || asleep >= all[1].memory {
		return errors.New("sleeping sessions weigh no less than others")
	}
	return nil
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
