// Command bench measures what mcp-tether costs, against a run without it.
//
// Every figure comes from pairs: one run bare, one run wrapped, in turn, in the same session on the same machine. So
// whatever else slows the machine slows both. The gateway's part is played by this program, which reads and writes as
// plainly as it can; where the gateway is killed, by the fixture. The servers are the system's own sh, cat, echo and sleep, so that a server's own start hides as little as possible of ours.
//
// Peers (tini, bubblewrap) are measured the same way when they are installed, to show where the figures stand.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
	dir      string
	self     string // this program
	programs stage.Programs
	tidy     func() // removes them

	// starting is held while a process is started; stopping says that none may be started any more.
	starting sync.Mutex
	stopping bool
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

// roles are what this program plays in the processes that it starts.
func roles() map[string]func(args []string) int {
	return map[string]func(args []string) int{crowdArg: playCrowd, answerArg: answer}
}

func main() {
	// The kernel ties PDEATHSIG to the thread that spawned: bubblewrap would end when that thread does.
	runtime.LockOSThread()
	if len(os.Args) > 1 {
		if play, ok := roles()[os.Args[1]]; ok {
			os.Exit(play(os.Args[2:]))
		}
	}
	b := &bench{}
	only := flag.String("only", "startup,roundtrip,memory,kill,reap,sleep,share", "what to measure")
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
	err := b.prepare()
	defer b.cleanUp()
	if err != nil {
		return err
	}
	b.cleanUpOnSignal()
	for _, name := range only {
		i := slices.IndexFunc(sections(), func(s section) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("there is no section %q", name)
		}
		fmt.Fprintf(os.Stderr, "bench: %s ...\n", name)
		stuck := time.AfterFunc(b.limit(), func() {
			fmt.Fprintf(os.Stderr, "bench: %s hangs: giving up\n", name)
			b.cleanUp()
			os.Exit(1)
		})
		t, err := sections()[i].measure(b)
		stuck.Stop()
		if err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
		if err := t.markdown(os.Stdout); err != nil {
			return err
		}
	}
	return nil
}

// limit is how long a section may take: many times what the slowest one does.
func (b *bench) limit() time.Duration {
	return 15*time.Minute + time.Duration(max(b.crowd, b.hibernated))*100*time.Millisecond
}

// prepare finds what is compared, and makes private directories for sessions and history. Settings of mcp-tether, which would
// change what is measured, are left out of the environment.
func (b *bench) prepare() (err error) {
	b.tidy = func() {}
	if b.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if b.subjects, err = findSubjects(b.bin); err != nil {
		return err
	}
	if b.programs, b.tidy, err = stage.Cast("bench-gateway", b.subjects[0].wrap[0]); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper, so that it can be known that nothing is left: %w", err)
	}
	if b.dir, err = os.MkdirTemp("", "mcp-tether-bench-"); err != nil {
		return fmt.Errorf("make a directory for the run: %w", err)
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "MCP_TETHER_") {
			_ = os.Unsetenv(name)
		}
	}
	state := filepath.Join(b.dir, "state") // where it is missing, sessions write no history
	if err := errors.Join(os.Mkdir(state, 0o700), os.Setenv("XDG_RUNTIME_DIR", b.dir), os.Setenv("XDG_STATE_HOME", state), os.Setenv("XDG_CACHE_HOME", state)); err != nil {
		return fmt.Errorf("make a directory for the history: %w", err)
	}
	return nil
}

func (b *bench) cleanUpOnSignal() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-ch
		b.cleanUp()
		os.Exit(130)
	}()
}
