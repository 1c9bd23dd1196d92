//go:build linux

// Command soak runs sessions of mcp-tether in random life for hours, and counts what they leave behind and whom they hit.
//
// Real clients of the official SDK play the gateways. They start real servers, call them, let them sleep, and end in many
// ways. Meanwhile servers crash, processes of mcp-tether are killed or stopped, and gateways are killed. Some sessions last
// from beginning to end: their memory and descriptors must not grow. Some processes are none of mcp-tether's business: they
// must live. All of it is in pid, mount and cgroup namespaces of its own.
//
//	soak -hours 2
//	soak -hours 0.1 -seed 7   the same lives each time
//	soak -seed 7 -life 1234   one life of the seed again, and what happened
//
// It needs root, a writable cgroup v2 hierarchy, node and the packages of e2e/npm. With docker there are containers, too. It
// exits 0 when nothing leaked, was hit, hung or grew, and 1 otherwise; 2 when it could not run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// options are the command line. The inner process has the same one.
type options struct {
	bin   string
	hours float64
	seed  uint64
	life  int
	dir   string
	cast  string // the fixture
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin/mcp-tether", "the `program` under test")
	f.Float64Var(&o.hours, "hours", 2, "how many hours")
	f.Uint64Var(&o.seed, "seed", 0, "what the lives are made from; 0 for a new one")
	f.IntVar(&o.life, "life", 0, "only the life with this `number`, and say what happens in it")
	f.StringVar(&o.dir, "dir", "bin/soak", "the `directory` for what was counted and for what failed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.hours <= 0 || o.life < 0 {
		return o, errors.New("-hours must be above zero")
	}
	for _, path := range []*string{&o.bin, &o.dir} {
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return o, fmt.Errorf("find %s: %w", *path, err)
		}
	}
	return o, nil
}

// duration is how long it takes.
func (o options) duration() time.Duration { return time.Duration(o.hours * float64(time.Hour)) }

// errFound says that mcp-tether did not keep its promise.
var errFound = errors.New("not all is well: see the table")

func main() {
	err := play(os.Args[1:])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "soak:", err)
	if errors.Is(err, errFound) {
		os.Exit(1)
	}
	os.Exit(2)
}

// play is what happens on a host of its own, or what starts that.
func play(args []string) error {
	if len(args) > 1 && args[0] == soakRole {
		return soakWithin(args[1], args[2:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("make a directory for the results: %w", err)
	}
	return enterWorld(o)
}
