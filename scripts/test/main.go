// Command test runs the tests of the project and says what they left out.
//
//	go run ./scripts/test [-short] [-run TESTS] [-race] [-again] [-slowest N] [-as KIND,...] [-tags TAGS] [-timeout D] [-vm OPTIONS | -only WORLDS] [PACKAGE...]
//
// It prints what go test does: a line a package, and all that a failed test said. Then it counts and names the tests
// that were skipped, by what they need, and says in one line what a short run left out. With -as, each skip must be on
// the list for one of these kinds of user or machine (skips.txt); one that is not fails the run. With -vm, the tests run in
// a virtual machine, as scripts/vm makes it with these options; -race and -tags are not for it. With -only, they run in one such
// machine after the other (worlds.txt), and a table says what ran where. With -again, a test that failed is run again by itself,
// with the seed that it told and a few times with others. If it passes each time, it is told as unsteady and does not
// fail the run.
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
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

// settings are what was asked for.
type settings struct {
	again, short, race       bool
	as, vm, only, skip, tags string
	worlds                   string
	slowest                  int
	timeout                  time.Duration
	allowed                  []allowance
	packages                 []string
}

func main() {
	var s settings
	flag.BoolVar(&s.short, "short", false, "leave out the tests that take long or need more than Go and make")
	flag.StringVar(&s.as, "as", "", "the kinds of user and machine whose lists of skips hold: "+strings.Join(kinds, ", "))
	flag.StringVar(&s.vm, "vm", "", "run the tests in a virtual machine with these options of scripts/vm")
	flag.StringVar(&s.worlds, "only", "", "run the tests in the virtual machines of worlds.txt whose names have one of these words, with commas between them; \"-\" is in all names")
	flag.BoolVar(&s.again, "again", false, "run a test that failed again, by itself and several times, and tell it as unsteady if it always passes then")
	flag.BoolVar(&s.race, "race", false, "with the race detector")
	flag.StringVar(&s.only, "run", "", "only the tests that this regular expression matches")
	flag.IntVar(&s.slowest, "slowest", 0, "name this many tests that took longest")
	flag.StringVar(&s.tags, "tags", "", "build tags")
	flag.DurationVar(&s.timeout, "timeout", 35*time.Minute, "how long a package may take")
	flag.Parse()
	var err error
	if s.allowed, err = parseSkips(skipList); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if s.packages = flag.Args(); len(s.packages) == 0 {
		s.packages = []string{"./..."}
	}
	if s.worlds != "" {
		err = s.visit(os.Stdout)
	} else {
		_, err = s.try(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		os.Exit(1)
	}
}

// worldLimit is how many seconds a virtual machine may run.
const worldLimit = "1800"

// visit runs the tests in the virtual machines that were asked for.
func (s settings) visit(out io.Writer) error {
	list, err := parseWorlds(worldList)
	if err != nil {
		return err
	}
	worlds := chosen(list.all, s.worlds)
	if len(worlds) == 0 {
		return fmt.Errorf("no world of worlds.txt is called %s", s.worlds)
	}
	// Machines that are alike but for the kernel run the same programs.
	built, err := os.MkdirTemp("", "mcp-tether-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	s.skip = list.skip()
	if !tour(worlds, out, func(w world) (*report, bool) {
		s.vm, s.as = strings.Join(append(w.options, "-e2e", anyOf(list.e2e), "-built", built, "-limit", worldLimit), " "), w.as
		r, err := s.try(out)
		if err != nil {
			fmt.Fprintln(out, "FAIL:", err)
		}
		return r, err == nil
	}) {
		return errors.New("in one of these worlds")
	}
	return nil
}

// try runs the tests once and tells of them.
func (s settings) try(out io.Writer) (*report, error) {
	args := s.command()
	r, err := run(append(args, s.packages...), out)
	if err != nil && s.again && r.runAgain(args, out) {
		err = nil
	}
	r.summarize(out)
	if s.as != "" && !r.judge(out, s.allowed, strings.Split(s.as, ",")...) {
		err = errors.Join(err, errNotAllowed)
	}
	r.tellSlowest(out, s.slowest)
	r.tellLeftOut(out)
	return r, err
}

// command is what runs the tests, without their packages.
func (s settings) command() []string {
	// -vet=off: make check does it, once. -trimpath: what is compiled for the tests and for the binary is the same.
	args := []string{"go", "test", "-vet=off", "-trimpath", "-tags", s.tags}
	if s.vm != "" {
		args = append([]string{"scripts/vm"}, strings.Fields(s.vm)...)
	}
	// As the test binary knows them: go test and scripts/vm take them as well.
	args = append(args, "-json", "-test.count=1", "-test.timeout="+s.timeout.String())
	if s.short {
		args = append(args, "-test.short")
	}
	if s.race {
		args = append(args, "-race")
	} else {
		args = append(args, "-test.parallel="+strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0))))
	}
	if s.only != "" {
		args = append(args, "-test.run="+s.only)
	}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	return args
}

// run runs the command that runs the tests, with more in its environment, and shows and collects what they say.
func run(args []string, out io.Writer, env ...string) (*report, error) {
	r := newReport()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = io.MultiWriter(os.Stderr, &r.stderr)
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
