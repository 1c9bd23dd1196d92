// Command bench measures what mcp-tether costs, against a run without it.
//
// Every figure comes from pairs: one run bare, one run wrapped, in turn, in the same session on the same machine. So
// whatever else slows the machine slows both. The gateway's part is played by this program. The servers are the
// system's own sh, cat, dd, echo and sleep, so that a server's own start hides as little as possible of ours.
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

	"mcp-tether/internal/proc"
)

// options are the command line of bench.
type options struct {
	bin        string
	argv       string
	only       string
	rounds     int
	sessions   int
	bulkMiB    int
	crowd      int
	hibernated int
	row        int
	stock      int
	users      int
	idle       time.Duration
}

// bench is one run: what is compared, how often, and where its files are.
type bench struct {
	options
	subjects []subject
	dir      string
	env      []string
	self     string // this program
	procs    proc.Reader

	// byProcessor has the relay's bulk timed by the processor time of all that take part, as if nothing else ran on the core.
	byProcessor bool

	// starting is held while a process is started; stopping says that none may be started any more.
	starting sync.Mutex
	stopping bool
}

func main() {
	// The kernel ties PDEATHSIG to the thread that spawned: bubblewrap would end when that thread does.
	runtime.LockOSThread()
	if len(os.Args) > 1 {
		if play, ok := roles()[os.Args[1]]; ok {
			os.Exit(play(os.Args[2:]))
		}
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// roles are what this program plays in the processes that it starts.
func roles() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		gatewayArg: gateway, crowdArg: playCrowd, usersArg: playUsers, engineArg: playEngine, spliceArg: playSplice, answerArg: answer, bulkArg: playBulk,
	}
}

func run(args []string) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	sections, err := chosen(opts.only)
	if err != nil {
		return err
	}
	b, err := newBench(opts)
	if err != nil {
		return err
	}
	defer b.cleanUp()
	b.cleanUpOnSignal()
	for _, s := range sections {
		fmt.Fprintf(os.Stderr, "bench: %s ...\n", s.name)
		stuck := time.AfterFunc(opts.limit(), func() {
			fmt.Fprintf(os.Stderr, "bench: %s hangs: giving up\n", s.name)
			b.cleanUp()
			os.Exit(1)
		})
		t, err := s.measure(b)
		stuck.Stop()
		if err != nil {
			err = fmt.Errorf("measure %s: %w", s.name, err)
		}
		if err == nil || len(t.Rows) > 0 { // what was measured before it failed may have taken long
			err = errors.Join(err, t.markdown(os.Stdout))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin/mcp-tether", "the `binary` to measure")
	f.StringVar(&o.argv, "argv", "", "measure this wrapper in place of -bin, as in \"bin/mcp-tether run --cgroup=off --\"")
	f.StringVar(&o.only, "only", "", "comma-separated `sections` of "+strings.Join(sectionNames(), ","))
	f.IntVar(&o.rounds, "n", 200, "pairs for startup; the slower sections do a fraction of it")
	f.IntVar(&o.sessions, "sessions", 100, "concurrent sessions for memory")
	f.IntVar(&o.bulkMiB, "bulk", 1024, "MiB each way for bulk")
	f.IntVar(&o.crowd, "procs", 10_000, "processes on the host of reap; each takes about 0.2 MB")
	f.IntVar(&o.hibernated, "hibernated", 500, "sessions that sleep at once in hibernate")
	f.IntVar(&o.row, "row", 2_000, "sessions of row, one after the other")
	f.IntVar(&o.users, "users", 100, "users with a session each in users")
	f.IntVar(&o.stock, "stock", 300, "containers that the engine of stock has")
	f.DurationVar(&o.idle, "idle", 65*time.Second, "how long idle watches; the Go runtime looks around once a minute")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.rounds < 1 || o.sessions < 1 || o.bulkMiB < 1 || o.crowd < 1 || o.hibernated < 1 || o.row < rowParts || o.users < 1 || o.stock < 1 || o.idle <= 0 {
		return o, errors.New("-n, -sessions, -bulk, -procs, -hibernated, -users, -stock and -idle must be above zero, -row ten or more")
	}
	return o, nil
}

// sectionLimit is many times what the slowest section takes with the default number of rounds, and perSession what it may take
// more for each that it starts.
const (
	sectionLimit = 15 * time.Minute
	perSession   = 100 * time.Millisecond
)

// limit is how long a section may take.
func (o *options) limit() time.Duration {
	return sectionLimit + o.idle + time.Duration(max(o.row, o.crowd, o.hibernated, o.users, o.stock))*perSession
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
		{"bulk", measureBulk},
		{"memory", measureMemory},
		{"many", measureMany},
		{"row", measureRow},
		{"idle", measureIdle},
		{"kill", measureKill},
		{"reap", measureReap},
		{"users", measureUsers},
		{"containers", measureContainers},
		{"stock", measureStock},
		{"engine", measureEngine},
		{"relay", measureRelay},
		{"hibernate", measureHibernate},
		{"share", measureShare},
	}
}

func sectionNames() (names []string) {
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

func chosen(only string) ([]section, error) {
	if only == "" {
		return sections(), nil
	}
	var out []section
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(sectionNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("no section %q; there are %s", name, strings.Join(sectionNames(), ", "))
		}
		out = append(out, sections()[i])
	}
	return out, nil
}

func newBench(o options) (*bench, error) {
	subjects, err := findSubjects(o)
	if err != nil {
		return nil, err
	}
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mcp-tether-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the run: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, stateName), 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for the history: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return &bench{options: o, subjects: subjects, dir: dir, env: sessionEnv(dir), self: self}, nil
}

// stateName is the directory of the history. Where it is missing, sessions write none.
const stateName = "state"

// sessionEnv is our environment with private directories for sessions and history, and without settings of mcp-tether, which would
// change what is measured.
func sessionEnv(dir string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MCP_TETHER_") || strings.HasPrefix(v, "XDG_RUNTIME_DIR=") || strings.HasPrefix(v, "XDG_STATE_HOME=")
	})
	return append(env, "XDG_RUNTIME_DIR="+dir, "XDG_STATE_HOME="+filepath.Join(dir, stateName))
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
