// Command test runs the tests of the project and says what they left out.
//
//	go run ./scripts/test [-short] [-run TESTS] [-race] [-again] [-slowest N] [-as KIND] [-tags TAGS] [-timeout D] [PACKAGE...]
//
// It prints what go test does: a line a package, and all that a failed test said. Then it counts and names the tests
// that were skipped, by what they need, and says in one line what a short run left out. With -as, each skip must be on
// the list for that kind of user (skips.txt); one that is not fails the run. With -again, a test that failed is run
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
	as := flag.String("as", "", "the kind of user whose list of skips holds: root, user or namespaces")
	again := flag.Bool("again", false, "run a test that failed again, by itself and several times, and tell it as unsteady if it always passes then")
	race := flag.Bool("race", false, "with the race detector")
	only := flag.String("run", "", "only the tests that this regular expression matches")
	slowest := flag.Int("slowest", 0, "name this many tests that took longest")
	tags := flag.String("tags", "", "build tags")
	timeout := flag.Duration("timeout", 25*time.Minute, "how long a package may take")
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
	args := []string{"test", "-json", "-count=1", "-vet=off", "-trimpath", "-tags", *tags, "-timeout", timeout.String()}
	if *short {
		args = append(args, "-short")
	}
	if *race {
		args = append(args, "-race")
	} else {
		args = append(args, "-parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0))))
	}
	if *only != "" {
		args = append(args, "-run", *only)
	}
	r, err := run(append(args, packages...), os.Stdout)
	if err != nil && *again && r.runAgain(args, os.Stdout) {
		err = nil
	}
	r.summarize(os.Stdout)
	if *as != "" && !r.judge(os.Stdout, allowed, *as) {
		err = errNotAllowed
	}
	r.tellSlowest(os.Stdout, *slowest)
	r.tellLeftOut(os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		os.Exit(1)
	}
}

// run runs the go command, with more in its environment, and shows and collects what the tests say.
func run(args []string, out io.Writer, env ...string) (*report, error) {
	r := newReport()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return r, fmt.Errorf("read from go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("start go test: %w", err)
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
		return r, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
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
