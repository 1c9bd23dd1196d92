// Command test runs the tests of the project, and says briefly how they went.
//
//	go run ./scripts/test [-short] [-race] [-run TESTS] [-tags TAGS] [-timeout D] [-slowest N] [PACKAGE...]
//
// It prints a line for each package while they run. At the end come the tests that failed, each with the last lines of what
// it said, how many passed, and one line about what was left out and for want of what.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"mcp-tether/e2e/stage"
)

// atOnce is how many tests of a package run at a time, even on few processors: they wait for processes more than they compute.
// Where there is little room for processes, two do, of one package: each has some dozens, with half a dozen threads.
func atOnce() (tests, packages int) {
	const usual, little, each = 8, 2048, 250
	tests, packages = max(usual, runtime.GOMAXPROCS(0)), runtime.GOMAXPROCS(0)
	if room := stage.Room(); room < little {
		tests, packages = max(room/each, 1), 1
	}
	return tests, packages
}

// settings are what was asked for.
type settings struct {
	short, race bool
	run, tags   string
	slowest     int
	timeout     time.Duration
	packages    []string
}

func main() {
	var s settings
	flag.BoolVar(&s.short, "short", false, "leave out the tests that take long or need more than Go and make")
	flag.BoolVar(&s.race, "race", false, "with the race detector")
	flag.StringVar(&s.run, "run", "", "only the tests that this regular expression matches")
	flag.StringVar(&s.tags, "tags", "", "build tags")
	flag.IntVar(&s.slowest, "slowest", 0, "name this many tests that took longest")
	flag.DurationVar(&s.timeout, "timeout", 20*time.Minute, "how long a package may take")
	flag.Parse()
	if s.packages = flag.Args(); len(s.packages) == 0 {
		s.packages = []string{"./..."}
	}
	r := newReport()
	err := s.play(r, os.Stdout)
	r.tell(os.Stdout, s.slowest)
	switch {
	case errors.Is(err, errTests):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(2)
	}
}

// errTests says that a test or a build has failed, which the report tells of.
var errTests = errors.New("tests failed")

// command is what runs the tests. What they are made of is compiled as the binary is, or most of it would be compiled twice.
func (s settings) command() []string {
	args := []string{"go", "test", "-json", "-vet=off", "-trimpath", "-count=1", "-tags", s.tags, "-timeout", s.timeout.String()}
	tests, packages := atOnce()
	args = append(args, "-p", strconv.Itoa(packages))
	if s.short {
		args = append(args, "-short")
	}
	if s.race {
		args = append(args, "-race")
	} else {
		args = append(args, "-parallel", strconv.Itoa(tests))
	}
	if s.run != "" {
		args = append(args, "-run", s.run)
	}
	return append(args, s.packages...)
}

// play runs the tests. The report takes what they say, and a line for each package goes to out at once.
func (s settings) play(r *report, out io.Writer) error {
	args := s.command()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("read from %s: %w", args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", args[0], err)
	}
	for lines := bufio.NewReader(pipe); ; {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			r.add(e, out)
		} else {
			fmt.Fprint(out, line)
		}
		if err != nil {
			break
		}
	}
	var exit *exec.ExitError
	switch err := cmd.Wait(); {
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return errTests
	case err != nil:
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}
