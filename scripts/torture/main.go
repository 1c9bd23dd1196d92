//go:build amd64

// Command torture injects faults into sessions of mcp-tether and looks for what they leave behind.
//
// Each case is one session in pid, mount and cgroup namespaces of its own. Its gateway starts mcp-tether, which starts
// a server with four helpers. One is detached by setsid and a double fork, one has a cleared environment, one is deaf
// to SIGTERM, and one is plain. A tracer follows the processes of mcp-tether through ptrace, and counts their system calls
// by role and name: anchor and supervisor while they wait, the same as recovery and ender once they have a runtime. It makes
// the chosen call fail, delays it, or kills or stops the process there. Server and helpers run untraced. Then the session is
// ended, and within a bound no process of it may be left.
//
//	torture -bin bin/mcp-tether                      every case
//	torture -bin bin/mcp-tether -sample 2m -seed 7   a random sample, the same for the same seed
//	torture -bin bin/mcp-tether -only '^leaf/.*recovery'
//	torture -bin bin/mcp-tether -cases scripts/torture/fixed.txt
//	torture -bin bin/mcp-tether -case leaf/gateway/ender.openat.7.EMFILE
//
// It needs root and a writable cgroup v2 hierarchy. It exits 0 when every case held or is known to fail so, and 1 when
// another one failed. It exits 2 when the cases could not be run.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

func main() {
	if len(os.Args) > 5 && os.Args[1] == "__sandbox" {
		runtime.LockOSThread() // one thread traces
		sandboxRole(os.Args[2:])
	}
	c, err := parseFlags()
	if err == nil {
		var failed int
		if failed, err = c.run(); err == nil && failed > 0 {
			os.Exit(1)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
}

func parseFlags() (*campaign, error) {
	c := &campaign{}
	var only string
	flag.StringVar(&c.bin, "bin", "bin/mcp-tether", "the program under test")
	flag.StringVar(&c.only, "case", "", "run the one case with this id and say what happened")
	flag.StringVar(&only, "only", "", "run the cases whose id matches this regular expression")
	flag.DurationVar(&c.sample, "sample", 0, "run random cases for this long instead of all")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "seed of the sample")
	flag.DurationVar(&c.bound, "bound", 9*time.Second, "how long a session may take to end")
	flag.IntVar(&c.jobs, "jobs", runtime.NumCPU()+1, "cases at once")
	flag.StringVar(&c.file, "cases", "", "run the cases whose ids begin the lines of this `FILE`")
	flag.Parse()
	if flag.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: see -help", flag.Arg(0))
	}
	var err error
	if c.filter, err = regexp.Compile(only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	if c.bin, err = filepath.Abs(c.bin); err != nil {
		return nil, fmt.Errorf("find %s: %w", c.bin, err)
	}
	return c, nil
}
