// Command fuzz runs the fuzz targets of packages one after the other, and says in a line what each has found and covers.
//
//	go run ./scripts/fuzz [-time D] [-keep] [-run TARGETS] [-tags TAGS] [PACKAGE...]
//
// A target starts from the inputs that are kept beside it, in testdata/fuzz, and from those that Go's build cache has of
// earlier runs here. With -keep, the fewest inputs of both that cover what all of them cover are kept from then on, within
// the bounds of corpus.go; every go test runs these. An input that once failed belongs into the code of the target (f.Add),
// since here it may be replaced by another that covers as much.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// minimize is how often an input that is found is run to make it smaller. Go's default is a minute for each. A target that does
// not do the same each time, as one that walks a map, then does nothing else: FuzzConversation ran 8 inputs in 12 seconds.
const minimize = "100x"

// fuzzer is how targets are run.
type fuzzer struct {
	length time.Duration
	keep   bool
	tags   string
	// cache is where Go keeps what it finds interesting, in a directory for each package and target.
	cache string
	// scratch is ours, and goes at the end.
	scratch string
}

func main() {
	f := fuzzer{}
	flag.DurationVar(&f.length, "time", 2*time.Second, "how long each target runs")
	flag.BoolVar(&f.keep, "keep", false, "keep the fewest inputs that cover what all of them cover")
	flag.StringVar(&f.tags, "tags", "", "build tags")
	only := flag.String("run", "", "only the targets that this regular expression matches")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := f.run(ctx, os.Stdout, *only, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		os.Exit(1)
	}
}

// run runs the targets of the packages whose names match.
func (f fuzzer) run(ctx context.Context, out io.Writer, only string, packages []string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("read -run: %w", err)
	}
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("ask go for its cache: %w", err)
	}
	f.cache = filepath.Join(strings.TrimSpace(string(cache)), "fuzz")
	if f.scratch, err = os.MkdirTemp("", "mcp-tether-fuzz-"); err != nil {
		return fmt.Errorf("make a directory to work in: %w", err)
	}
	defer os.RemoveAll(f.scratch)
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-tags", f.tags, "-f", "{{.ImportPath}}\t{{.Dir}}"}, packages...)...)
	list.Stderr = os.Stderr
	rows, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the packages: %w", err)
	}
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("ask for the working directory: %w", err)
	}
	for row := range strings.Lines(string(rows)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(row), "\t")
		targets, err := targetsIn(path, dir, wanted)
		if err != nil {
			return err
		}
		room, err := filepath.Rel(here, dir)
		if err != nil {
			return fmt.Errorf("name %s: %w", dir, err)
		}
		if err := f.runPackage(ctx, out, room, targets); err != nil {
			return err
		}
	}
	return nil
}

// runPackage runs the targets of one package. One binary is instrumented for the fuzzer and for coverage.
func (f fuzzer) runPackage(ctx context.Context, out io.Writer, room string, targets []target) error {
	if len(targets) == 0 {
		return nil
	}
	binary := filepath.Join(f.scratch, "fuzz.test")
	how := []string{"-fuzz=.", "-tags", f.tags}
	if f.keep {
		// An input may be worth keeping for what it makes the other packages do.
		how = append(how, "-coverpkg=./...")
	}
	if err := compile(ctx, binary, targets[0].path, how...); err != nil {
		return err
	}
	for _, t := range targets {
		t.binary = binary
		line, err := f.runTarget(ctx, t)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-21s %-17s %s\n", room, t.name, line)
	}
	return nil
}

// compile makes the test binary of a package, which can say what it covers: of that package, unless -coverpkg says more.
func compile(ctx context.Context, binary, path string, more ...string) error {
	args := append([]string{"test", "-c", "-vet=off", "-cover", "-covermode=count", "-o", binary}, more...)
	if said, err := exec.CommandContext(ctx, "go", append(args, path)...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile the tests of %s: %w\n%s", path, err, said)
	}
	return nil
}

// runTarget fuzzes one target, keeps inputs if that is asked for, and says what there is.
func (f fuzzer) runTarget(ctx context.Context, t target) (string, error) {
	said, err := f.fuzz(ctx, t)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", t.path, t.name, err, said)
	}
	c, err := t.gather(ctx, f.scratch, filepath.Join(f.cache, t.path, t.name))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", t.path, t.name, err)
	}
	covered := fmt.Sprintf("%4.1f %% of the statements", c.all.percent(t.path))
	if f.keep {
		all, err := c.keep(ctx)
		if err != nil {
			return "", fmt.Errorf("keep inputs of %s %s: %w", t.path, t.name, err)
		}
		covered += fmt.Sprintf(", %4.1f %% by what is kept", all.percent(t.path))
	}
	kept, err := os.ReadDir(t.corpus())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("count what is kept: %w", err)
	}
	line := fmt.Sprintf("%s, %2d inputs kept, %s", covered, len(kept), progress(said))
	if t.against != "" {
		line += ", against " + t.against
	}
	return line, nil
}

// fuzz runs the fuzzer on a target. On a busy machine it may miss its own deadline at the end and call that a failure; with
// no failing input, the target is tried once more.
func (f fuzzer) fuzz(ctx context.Context, t target) (said []byte, err error) {
	for range 2 {
		said, err = t.run(ctx, t.dir, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+f.length.String(),
			"-test.fuzzminimizetime="+minimize, "-test.fuzzcachedir="+filepath.Join(f.cache, t.path))
		if err == nil || !strings.Contains(string(said), "context deadline exceeded") || strings.Contains(string(said), "Failing input") {
			break
		}
	}
	return said, err
}

// run runs the test binary in a directory, where it looks for inputs.
func (t target) run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

// progress is what the fuzzer said last of its work.
func progress(said []byte) string {
	counts := regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`).FindAllSubmatch(said, -1)
	if len(counts) == 0 {
		return "no executions"
	}
	last := counts[len(counts)-1]
	return fmt.Sprintf("%7s executions, %3s new", last[1], last[2])
}
