// Command model checks scripts/model/protocol.pml with spin: the protocol itself in each of its worlds, and then each mistake
// that can be planted there, which must be caught. It needs spin and a C compiler.
//
//	go run ./scripts/model          all, with a line for each (make model)
//	go run ./scripts/model -bug 3   one mistake
//	go run ./scripts/model -replay FILE...   the logs of real sessions, which must be runs of the model
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed protocol.pml
var protocol string

// The worlds of the model, in the order of their numbers there.
var worlds = []string{"plain", "front", "shared"}

// mistake is one that can be planted. The model's line "#define NAME N /* BUG in WORLD: what */" names it.
type mistake struct {
	name  string
	bug   int
	world int
	what  string
}

func main() {
	only := flag.Int("bug", -1, "check with this mistake only, 0 for none")
	faults := flag.Int("faults", 2, "how many processes are killed or stopped in one run of the model")
	replay := flag.Bool("replay", false, "replay the logs in the files or directories that follow instead")
	mistakes := flag.Bool("mistakes", false, "with -replay: make mistakes in the logs, which must be refused; their test must say what it did")
	flag.Parse()
	if err := run(*only, *faults, *replay, *mistakes, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

func run(only, faults int, replay, wrong bool, logs []string) error {
	all, err := mistakes()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mcp-tether-model-")
	if err != nil {
		return fmt.Errorf("make a directory to build the model in: %w", err)
	}
	defer os.RemoveAll(dir)
	if replay {
		return replayAll(dir, logs, wrong)
	}
	if err := compile(dir, "search", nil, "-DVECTORSZ=512", "-DMEMLIM=4000"); err != nil {
		return err
	}
	var checks []check
	if only <= 0 {
		for n, name := range worlds {
			checks = append(checks, check{mistake: mistake{name: "none", world: n, what: "the protocol, " + name}, faults: faults, dir: dir})
		}
		// These take so many states more that one process fails.
		for n, name := range worlds {
			m := mistake{name: "none", world: n, what: "the protocol, " + name + ", with all that clients do, one fault"}
			checks = append(checks, check{mistake: m, faults: min(faults, 1), dir: dir, also: "RICH=1"})
		}
		m := mistake{name: "none", what: "the protocol, two sessions side by side, one fault"}
		checks = append(checks, check{mistake: m, faults: min(faults, 1), dir: dir, also: "TWINS=1"})
	}
	for _, m := range all {
		if only < 0 || only == m.bug {
			checks = append(checks, check{mistake: m, faults: faults, dir: dir})
		}
	}
	return checkAll(checks)
}

// mistakes reads the list from the model.
func mistakes() (all []mistake, err error) {
	line := regexp.MustCompile(`(?m)^#define (\w+) (\d+) +/\* BUG in (\w+): (.*) \*/$`)
	for _, m := range line.FindAllStringSubmatch(protocol, -1) {
		bug, _ := strconv.Atoi(m[2])
		world := -1
		for n, name := range worlds {
			if name == m[3] {
				world = n
			}
		}
		if world < 0 || bug != len(all)+1 {
			return nil, fmt.Errorf("protocol.pml: mistake %s has the world %s and the number %d", m[1], m[3], bug)
		}
		all = append(all, mistake{m[1], bug, world, m[4]})
	}
	return all, nil
}

// compile makes a program that searches, once for all checks: the world and the mistake are in its environment.
func compile(dir, program string, of []string, limits ...string) error {
	for name, text := range map[string]string{"protocol.pml": protocol, "replay.pml": replays} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the model: %w", err)
		}
	}
	// COLLAPSE keeps each state whole. With HC4 one in a hundred was taken for another. SAFETY: no cycles are looked for.
	for _, words := range [][]string{
		slices.Concat([]string{"spin"}, of, []string{"-a", "protocol.pml"}),
		slices.Concat([]string{"cc", "-w", "-O2", "-DSAFETY", "-DCOLLAPSE", "-DNOREDUCE"}, limits, []string{"-o", program, "pan.c"}),
	} {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, out)
		}
	}
	return nil
}

// check is one search of the model's states.
type check struct {
	mistake
	faults int
	dir    string
	also   string // what else is set in the model, NAME=1
}

// checkAll runs the searches, as many at once as there are processors, and prints them in their order.
func checkAll(checks []check) error {
	type result struct {
		line string
		err  error
	}
	results, free := make([]result, len(checks)), make(chan bool, runtime.NumCPU())
	var all sync.WaitGroup
	for i, c := range checks {
		all.Add(1)
		free <- true
		go func() {
			defer all.Done()
			results[i].line, results[i].err = c.search()
			<-free
		}()
	}
	all.Wait()
	var failed error
	for _, r := range results {
		fmt.Println(r.line)
		failed = errors.Join(failed, r.err)
	}
	return failed
}

// search runs one search. It fails if the model does not hold, or if a mistake is not caught.
func (c check) search() (string, error) {
	began := time.Now()
	cmd := exec.Command("./search", "-m10000", "-w24")
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("KIND=%d", c.world), fmt.Sprintf("BUG=%d", c.bug), fmt.Sprintf("FAULTS=%d", c.faults), c.also)
	out, err := cmd.CombinedOutput()
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 0 && !bytes.Contains(out, []byte("errors:")) {
			return "", fmt.Errorf("search: %w\n%s", err, out)
		}
	}
	states := first(out, `(\d+) states, stored`)
	violated := first(out, `assertion violated (.*)`)
	whole := bytes.Contains(out, []byte("errors: 0")) && !bytes.Contains(out, []byte("Search not completed")) && !bytes.Contains(out, []byte("max search depth"))
	line := fmt.Sprintf("%-16s %-7s %9s states %5.1f s  %s", c.name, worlds[c.world], states, time.Since(began).Seconds(), c.what)
	switch {
	case c.bug == 0 && !whole:
		return line + ": FAILED", fmt.Errorf("the %s world does not hold: %s\n%s", worlds[c.world], violated, out)
	case c.bug > 0 && violated == "":
		return line + ": NOT CAUGHT", fmt.Errorf("mistake %d (%s) is not caught: %s", c.bug, c.name, c.what)
	}
	return line, nil
}

func first(out []byte, pattern string) string {
	if m := regexp.MustCompile(pattern).FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return ""
}
