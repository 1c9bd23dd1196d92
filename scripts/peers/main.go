// Command peers shows what is left under mcp-tether and under other wrappers, in cases that mean something for any of them.
//
// Each case is played by a gateway, a server and what that starts, all of them the fixture (e2e/fixture). A process of
// its own directs it. As a child subreaper it sees all that is left, and ends it.
//
//	go run ./scripts/peers bin/mcp-tether
//	go run ./scripts/peers -only tini,bwrap -cases gateway-killed,detached bin/mcp-tether
//
// It prints a Markdown table and exits 0 only if bare fails in each case, as otherwise the case shows nothing, and
// mcp-tether passes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	if len(args) > 1 && args[0] == playArg {
		return play(args[1:])
	}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	only := flags.String("only", "", "the wrappers to try beside bare and mcp-tether, as `NAME,NAME`; all by default")
	chosen := flags.String("cases", "", "the cases to try, as `NAME,NAME`; all by default")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: peers [-only NAME,...] [-cases NAME,...] PATH-OF-MCP-TETHER")
	}
	tether, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return fmt.Errorf("find %s: %w", flags.Arg(0), err)
	}
	wrappers, err := choose(peers(tether), *only, func(p peer) string { return p.name }, bare, ours)
	if err != nil {
		return err
	}
	cases, err := choose(allCases(), *chosen, func(c story) string { return c.name })
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return compare(ctx, wrappers, cases)
}

// choose picks what a comma-separated list names, and always what is in with; all for an empty list.
func choose[T any](all []T, list string, name func(T) string, with ...string) (picked []T, err error) {
	if list == "" {
		return all, nil
	}
	wanted := append(strings.Split(list, ","), with...)
	var names []string
	for _, one := range all {
		names = append(names, name(one))
		if slices.Contains(wanted, name(one)) {
			picked = append(picked, one)
		}
	}
	for _, w := range wanted {
		if !slices.Contains(names, w) {
			return nil, fmt.Errorf("%q is none of %s", w, strings.Join(names, ", "))
		}
	}
	return picked, nil
}
