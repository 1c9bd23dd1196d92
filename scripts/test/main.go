// Command test runs the tests of the project and says what they left out.
//
//	go run ./scripts/test [-short] [-run TESTS] [-race] [-again] [-slowest N] [-as KIND,...] [-tags TAGS] [-timeout D] [-vm OPTIONS] [PACKAGE...]
//
// It prints what go test does: a line a package, and all that a failed test said. Then it counts and names the tests
// that were skipped, by what they need, and says in one line what a short run left out. With -as, each skip must be on
// the list for one of these kinds of user or machine (skips.txt); one that is not fails the run. With -vm, the tests run in
// a virtual machine, as scripts/vm makes it with these options; -race and -tags are not for it. With -again, a test that failed is run
// again by itself, with the seed that it told and a few times with others. If it passes each time, it is told as
// unsteady and does not fail the run.
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

//go:embed skips.txt
var skipList string

// atOnce is how many tests of a package run at a time, even on few processors: they wait for processes more than they compute.
const atOnce = 8

func main() {
	short := flag.Bool("short", false, "leave out the tests that take long or need more than Go and make")
	as := flag.String("as", "", "the kinds of user and machine whose lists of skips hold: "+strings.Join(kinds, ", "))
	vm := flag.String("vm", "", "run the tests in a virtual machine with these options of scripts/vm")
	again := flag.Bool("again", false, "run a test that failed again, by itself and several times, and tell it as unsteady if it always passes then")
	race := flag.Bool("race", false, "with the race detector")
	only := flag.String("run", "", "only the tests that this regular expression matches")
	slowest := flag.Int("slowest", 0, "name this many tests that took longest")
	tags := flag.String("tags", "", "build tags")
	timeout := flag.Duration("timeout", 35*time.Minute, "how long a package may take")
	flag.Parse()
	allowed, err := parseSkips(skipList)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	// -vet=off: make check does it, once. -trimpath: what is compiled for the tests and for the binary is the same.
	args := []string{"go", "test", "-vet=off", "-trimpath", "-tags", *tags}
	if *vm != "" {
		args = append([]string{"scripts/vm"}, strings.Fields(*vm)...)
	}
	// As the test binary knows them: go test and scripts/vm take them as well.
	args = append(args, "-json", "-test.count=1", "-test.timeout="+timeout.String())
	if *short {
		args = append(args, "-test.short")
	}
	if *race {
		args = append(args, "-race")
	} else {
		args = append(args, "-test.parallel="+strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0))))
	}
	if *only != "" {
		args = append(args, "-test.run="+*only)
	}
	r, err := run(append(args, packages...), os.Stdout)
	if err != nil && *again && r.runAgain(args, os.Stdout) {
		err = nil
	}
	r.summarize(os.Stdout)
	if *as != "" && !r.judge(os.Stdout, allowed, strings.Split(*as, ",")...) {
		err = errNotAllowed
	}
	r.tellSlowest(os.Stdout, *slowest)
	r.tellLeftOut(os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		os.Exit(1)
	}
}

// run runs the command that runs the tests, with more in its environment, and shows and collects what they say.
func run(args []string, out io.Writer, env ...string) (*report, error) {
	r := newReport()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return r, fmt.Errorf("read from %s: %w", args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("start %s: %w", args[0], err)
	}
	lines := bufio.NewReader(pipe)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.take(line, out)
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return r, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return r, nil
}

// event is one line of go test -json, see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// take takes one line. What is no event (a package that does not compile) is shown as it is.
func (r *report) take(line string, out io.Writer) {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Action == "" {
		fmt.Fprint(out, line)
		return
	}
	r.add(e, out)
}
