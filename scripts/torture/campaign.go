//go:build amd64

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"mcp-tether/e2e/stage"
)

// campaign is one run of this command.
type campaign struct {
	bin    string
	only   string
	filter *regexp.Regexp
	sample time.Duration
	seed   uint64
	bound  time.Duration
	jobs   int
	file   string
	known  known

	cast stage.Programs
	// cgroup is the directory below which each case gets one.
	cgroup string
	table  table
	mu     sync.Mutex
	next   int
}

// run runs what the flags ask for and counts the cases that failed.
func (c *campaign) run() (failed int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("namespaces and cgroups need root")
	}
	if c.known, err = readKnown(); err != nil {
		return 0, err
	}
	var tidy func()
	if c.cast, tidy, err = stage.Cast("torture", c.bin); err != nil {
		return 0, err
	}
	defer tidy()
	if c.cgroup, err = stage.MakeCgroup(fmt.Sprintf("torture-%d", os.Getpid())); err != nil {
		return 0, err
	}
	defer stage.RemoveCgroup(c.cgroup)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.only != "" {
		return c.replay(ctx)
	}
	if err := c.control(ctx); err != nil {
		return 0, err
	}
	read := c.cases
	if c.file != "" {
		read = c.listed
	}
	cases, err := read(ctx)
	if err != nil {
		return 0, err
	}
	if c.sample > 0 {
		fmt.Printf("seed %d\n", c.seed)
	}
	began := time.Now()
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	c.all(ctx, cases)
	fmt.Print(c.table.String())
	fmt.Printf("%d of %d cases in %v, seed %d: %d failed\n", c.table.total, len(cases), time.Since(began).Round(time.Second), c.seed, c.table.failed)
	return c.table.failed, nil
}

// deadline bounds the time of a sample, and of nothing else.
func (c *campaign) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.sample > 0 {
		return context.WithTimeout(ctx, c.sample)
	}
	return context.WithCancel(ctx)
}

// replay runs one case and prints all that is known of it.
func (c *campaign) replay(ctx context.Context) (int, error) {
	k, err := parseCase(c.only)
	if err != nil {
		return 0, err
	}
	r := c.one(ctx, k)
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return 0, err
	}
	fmt.Println(string(b))
	if r.failed() {
		return 1, nil
	}
	return 0, nil
}

// control makes sure that a leak would be seen: a bare session must leak.
func (c *campaign) control(ctx context.Context) error {
	r := c.one(ctx, Case{Mode: bareMode, Ending: endGateway})
	if r.Verdict != verdictLeak || len(r.Left) < len(helpers) {
		return fmt.Errorf("a session without mcp-tether must leak, or no leak can be seen: %+v", r)
	}
	return nil
}

// censusTries is how often a session without a further fault may fail to come up.
const censusTries = 3

// cases counts the calls of sessions without a second fault, and makes the cases from them.
func (c *campaign) cases(ctx context.Context) ([]Case, error) {
	all := plans()
	made := make([][]Case, len(all))
	counts := map[string]map[string]map[string]int{} // of the sessions without a fault, by mode
	var list []Case
	for _, p := range all {
		list = append(list, p.base)
	}
	errs := make([]error, len(all))
	c.each(ctx, list, func(i int, r Result) {
		// On a busy machine a session may take longer to come up than a sandbox waits.
		for try := 1; try < censusTries && !r.Ready; try++ {
			r = c.confirmed(ctx, list[i])
		}
		if r.Verdict == verdictBroken || !r.Ready {
			errs[i] = fmt.Errorf("session %s without a further fault: %+v", list[i], r)
			return
		}
		if r.failed() {
			c.take(list[i], r)
		}
		made[i] = all[i].cases(r.Counts)
		if all[i].base.First == nil && all[i].base.Ending == endGateway {
			c.mu.Lock()
			counts[all[i].base.Mode] = r.Counts
			c.mu.Unlock()
		}
	})
	for i, p := range all {
		if p.base.First != nil && p.base.First.At == atReady {
			made[i] = append(made[i], pairs(made[i], counts[p.base.Mode])...)
		}
	}
	cases := slices.DeleteFunc(slices.Concat(made...), func(k Case) bool { return !c.filter.MatchString(k.String()) })
	if c.sample > 0 {
		r := rand.New(rand.NewPCG(c.seed, 0))
		r.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		cases = spread(cases)
	}
	return cases, errors.Join(errs...)
}

// listed reads the cases from a file: the first word of each line is an id.
func (c *campaign) listed(context.Context) ([]Case, error) {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return nil, fmt.Errorf("read a list of cases: %w", err)
	}
	var out []Case
	for _, line := range saying(string(text)) {
		id := strings.Fields(line)[0]
		if !c.filter.MatchString(id) {
			continue
		}
		k, err := parseCase(id)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// spread orders shuffled cases so that every mode and class gets its turns, however many cases the others have.
func spread(cases []Case) []Case {
	queues, order := map[string][]Case{}, []string{}
	for _, k := range cases {
		key := k.Mode + " " + k.Class()
		if queues[key] == nil {
			order = append(order, key)
		}
		queues[key] = append(queues[key], k)
	}
	var out []Case
	for round := 0; len(out) < len(cases); round++ {
		for _, key := range order {
			n := min(turns(queues[key], round), len(queues[key]))
			out, queues[key] = append(out, queues[key][:n]...), queues[key][n:]
		}
	}
	return out
}

// turns is how many cases of one mode and class a round of a sample takes. Calls that fail are most of what can happen; a
// stopped process takes long.
func turns(queue []Case, round int) int {
	switch {
	case len(queue) == 0:
		return 0
	case queue[0].Shot.Fault == faultStop:
		if round%4 != 0 {
			return 0
		}
	case queue[0].Shot.Fault != faultDelay:
		return 4
	}
	return 1
}

func (c *campaign) all(ctx context.Context, cases []Case) {
	c.each(ctx, cases, func(i int, r Result) { c.take(cases[i], r) })
}

// take enters a result into the table, and prints it if the case failed.
func (c *campaign) take(k Case, r Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reason, isKnown := c.known.match(r)
	c.table.add(k, r, isKnown)
	if !r.failed() {
		return
	}
	if isKnown {
		fmt.Printf("known   %s: %s: %s\n", r.Case, r.Verdict, reason)
		return
	}
	tell(r.Verdict, r)
}

// each runs the cases, several at once, until the context ends. What was seen until then counts.
func (c *campaign) each(ctx context.Context, cases []Case, done func(i int, r Result)) {
	work := make(chan int)
	var wait sync.WaitGroup
	for range c.jobs {
		wait.Go(func() {
			for i := range work {
				if r := c.confirmed(ctx, cases[i]); !cutOff(ctx, r) {
					done(i, r)
				}
			}
		})
	}
	for i := range cases {
		select {
		case work <- i:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(work)
	wait.Wait()
}

// tries is how often a case is run that cannot be run, or fails.
const tries = 3

// confirmed runs a case. One that failed is run again, and counts if it fails once more. A failure that does not come
// back may be due to the machine, or is a race to look for by hand. One that the end of the context leaves no time to run again counts.
func (c *campaign) confirmed(ctx context.Context, k Case) Result {
	first := c.one(ctx, k)
	for try := 1; try < tries && first.Verdict == verdictBroken && ctx.Err() == nil; try++ {
		first = c.one(ctx, k)
	}
	if _, isKnown := c.known.match(first); isKnown || !first.failed() {
		return first
	}
	last := first
	for try := 1; try < tries && ctx.Err() == nil; try++ {
		if r := c.one(ctx, k); r.failed() && !cutOff(ctx, r) {
			return r
		} else if !r.failed() {
			last = r
		}
	}
	if !last.failed() {
		tell("once "+first.Verdict, first)
	}
	return last
}

// cutOff reports whether the end of the context may be why a case could not be run.
func cutOff(ctx context.Context, r Result) bool {
	return r.Verdict == verdictBroken && ctx.Err() != nil
}

// tell prints a case that failed.
func tell(how string, r Result) {
	fmt.Printf("%-7s %s\n        at %s\n        left: %s\n        after reap --kill: %s\n        %.600s\n",
		how, r.Case, r.Fired, strings.Join(r.Left, ", "), strings.Join(r.AfterReap, ", "), strings.TrimSpace(r.Why))
}

// one runs a case in a sandbox of its own.
func (c *campaign) one(ctx context.Context, k Case) Result {
	c.mu.Lock()
	c.next++
	dir := fmt.Sprintf("%s/%d", c.cgroup, c.next)
	c.mu.Unlock()
	broken := func(what string, err error) Result {
		return Result{Case: k.String(), Verdict: verdictBroken, Why: fmt.Sprintf("%s: %v", what, err)}
	}
	self, err := os.Executable()
	if err = errors.Join(err, os.Mkdir(dir, 0o755)); err != nil {
		return broken("make a cgroup", err)
	}
	defer stage.RemoveCgroup(dir)
	ctx, cancel := context.WithTimeout(ctx, 6*c.bound+2*reapBound)
	defer cancel()
	cmd := c.cast.Host(ctx, dir, nil, self, "__sandbox", k.String(), c.bin, c.cast.Fixture, c.bound.String())
	cmd.Env = environment(modes()[k.Mode])
	var errs strings.Builder
	cmd.Stderr = &errs
	said, err := cmd.Output()
	var out Result
	if err = errors.Join(err, json.Unmarshal(said, &out)); err != nil {
		return broken("run the sandbox", fmt.Errorf("%w %s", err, errs.String()))
	}
	return out
}

// failed reports whether the case did not hold.
func (r Result) failed() bool {
	return !slices.Contains([]string{verdictOK, verdictReaped, verdictNamed, verdictLate}, r.Verdict)
}
