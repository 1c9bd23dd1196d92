// Command bench measures what mcp-tether costs, against a run without it.
//
// Every figure comes from pairs: one run bare, one run wrapped, in turn, in the same session on the same machine. So
// whatever else slows the machine slows both. The gateway's part is played by this program, which reads and writes as
// plainly as it can; where the gateway is killed, by the fixture. The servers are the system's own sh, cat, echo and sleep, so that a server's own start hides as little as possible of ours.
//
// Peers (tini, bubblewrap) are measured the same way when they are installed, to show where the figures stand. All of it is on a
// host of its own (stage.Host), as root: nobody else's processes are there, and the kernel ends what is left.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"mcp-tether/e2e/stage"
)

// bench is one run: what is compared, how often, and where its files are.
type bench struct {
	bin        string
	rounds     int
	sessions   int
	crowd      int
	hibernated int

	subjects []subject
	self     string // this program
	programs stage.Programs
}

// section is one thing to measure.
type section struct {
	name    string
	measure func(*bench) (table, error)
}

func sections() []section {
	return []section{
		{"startup", measureStartup},
		{"roundtrip", measureRoundtrip},
		{"memory", measureMemory},
		{"kill", measureKill},
		{"reap", measureReap},
		{"sleep", measureSleep},
		{"share", measureShare},
	}
}

func main() {
	// The kernel ties PDEATHSIG to the thread that spawned: bubblewrap would end when that thread does.
	runtime.LockOSThread()
	if len(os.Args) > 1 && os.Args[1] == answerArg {
		os.Exit(answer())
	}
	b := &bench{}
	only := flag.String("only", "startup,roundtrip,memory,kill,reap,sleep,share", "what to measure")
	flag.StringVar(&b.programs.Fixture, "fixture", "", "on its own host: the program that plays gateways")
	flag.StringVar(&b.bin, "bin", "bin/mcp-tether", "the `binary` to measure")
	flag.IntVar(&b.rounds, "n", 200, "pairs for startup; the slower sections do a fraction of it")
	flag.IntVar(&b.sessions, "sessions", 100, "concurrent sessions for memory and share")
	flag.IntVar(&b.crowd, "procs", 10_000, "processes on the host of reap; each takes about 0.2 MB")
	flag.IntVar(&b.hibernated, "hibernated", 500, "sessions that sleep at once in sleep")
	flag.Parse()
	if err := b.run(strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(only []string) error {
	if min(b.rounds, b.sessions, b.crowd, b.hibernated) < 1 {
		return errors.New("-n, -sessions, -procs and -hibernated must be above zero")
	}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if b.subjects, err = findSubjects(b.bin); err != nil {
		return err
	}
	b.programs.Tether = b.subjects[0].wrap[0]
	if b.programs.Fixture == "" {
		return b.enterHost()
	}
	for _, name := range only {
		i := slices.IndexFunc(sections(), func(s section) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("there is no section %q", name)
		}
		fmt.Fprintf(os.Stderr, "bench: %s ...\n", name)
		t, err := sections()[i].measure(b)
		if err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
		if _, err := fmt.Print(t); err != nil {
			return fmt.Errorf("print the results: %w", err)
		}
	}
	return nil
}

// enterHost runs this program on a host, with the same flags. Settings of mcp-tether, which would change what is measured, are left
// out of the environment, and so is whatever directory a session would write to: those of the host are its own.
func (b *bench) enterHost() error {
	if os.Getuid() != 0 {
		return errors.New("a host of its own needs root")
	}
	cast, tidy, err := stage.Cast("bench-gateway", b.programs.Tether)
	if err != nil {
		return err
	}
	defer tidy()
	cmd := cast.Host(context.Background(), "", nil, slices.Concat([]string{b.self, "-fixture", cast.Fixture}, os.Args[1:], []string{"-bin", b.programs.Tether})...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/tmp", "XDG_RUNTIME_DIR=/run"}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
