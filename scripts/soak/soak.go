//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

const (
	// atOnce is how many lives there are at a time.
	atOnce = 4
	// sweepPause is between two sweeps, as from cron.
	sweepPause = time.Minute
	// samplePause is between two samples of what lasts.
	samplePause = time.Minute
	// quietPause is between two moments in which no life goes on.
	quietPause = 10 * time.Minute
	// quietBound is how long a shared server may linger then.
	quietBound = 30 * time.Second
)

// soak is one run.
type soak struct {
	options
	tally *tally
	image string // "" without an engine
	until string // when processes of the fixture end by themselves, which is after the soak
	// aloud says what happens in a life while it happens.
	aloud   bool
	lasting []*steady
	// innocents are of no session: what they are called, by process.
	innocents map[string]process
	box       string // the container among them
	// quiet is held for reading by each life.
	quiet sync.RWMutex
	// sweeping is held during a sweep.
	sweeping sync.Mutex
}

// soakWithin is the soak on its host.
func soakWithin(fixture string, args []string) error {
	o, err := parse(args)
	if err = errors.Join(err, settle()); err != nil {
		return err
	}
	o.cast = fixture
	s := &soak{options: o, aloud: o.life > 0, innocents: map[string]process{}}
	s.until = fmt.Sprint(time.Now().Add(o.duration() + 24*time.Hour).Unix())
	if os.Getenv("DOCKER_HOST") != "" {
		if s.image, err = stage.Image(fixture); err != nil {
			return err
		}
	}
	s.tally = newTally(o.seed)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	fmt.Printf("soak: seed %d, %.2f hours, containers: %v\n", s.tally.seed, s.hours, s.image != "")
	if s.life > 0 {
		if s.live(s.life); len(s.tally.wrong) > 0 {
			return errFound
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.duration())
	defer cancel()
	if err := s.run(ctx); err != nil {
		return err
	}
	s.tally.report(os.Stdout)
	report, err := os.Create(filepath.Join(s.dir, "report.md"))
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer report.Close()
	s.tally.report(report)
	if len(s.tally.wrong) > 0 {
		return errFound
	}
	return nil
}

// run lives lives until the context ends, and then looks for what is left of all.
func (s *soak) run(ctx context.Context) error {
	if err := errors.Join(s.control(), s.startInnocents()); err != nil {
		return err
	}
	done := make(chan struct{})
	var callers, workers sync.WaitGroup
	s.lasting = steadies(s.image != "")
	for _, st := range s.lasting {
		if err := st.start(s); err != nil {
			return err
		}
		callers.Go(func() { st.call(s, done) })
	}
	for range atOnce {
		workers.Go(func() {
			for ctx.Err() == nil {
				s.quiet.RLock()
				s.live(s.tally.take())
				s.quiet.RUnlock()
			}
		})
	}
	for _, now := range []struct {
		pause time.Duration
		do    func()
	}{{time.Second, s.watch}, {samplePause / 2, s.watchBox}, {samplePause, s.sample}, {sweepPause, s.sweep}, {quietPause, s.look}} {
		workers.Go(func() { every(ctx, now.pause, now.do) })
	}
	workers.Wait()
	s.look()
	close(done)
	callers.Wait()
	s.endSteady()
	s.lookAtTheEnd()
	return nil
}

// every does something again and again until the context ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			do()
		}
	}
}

// sweep is what cron does. Two at a time would be an error of ours: the second says so.
func (s *soak) sweep() {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	cmd := exec.Command(s.bin, "reap", "--kill", "--quiet")
	out, err := cmd.CombinedOutput()
	s.tally.count("sweeps")
	// 1: there were findings, all of which may have been ended.
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		s.tally.bad("reap --kill: %v: %s", err, out)
	}
}

// sample measures what lasts.
func (s *soak) sample() {
	all := s.living()
	for _, st := range s.lasting {
		st.measure(all)
	}
	s.tally.mu.Lock()
	fmt.Printf("soak: %s, life %d, %d sweeps, %d bad\n", time.Since(s.tally.began).Round(time.Second), s.tally.next, s.tally.counts["sweeps"], len(s.tally.wrong))
	s.tally.mu.Unlock()
}

// look waits until no life goes on: what is then there of any has leaked. Its life may have passed its own judgement, as where
// a process was started late, or a shared server stayed.
func (s *soak) look() {
	s.quiet.Lock()
	defer s.quiet.Unlock()
	var left []string
	for deadline := time.Now().Add(quietBound); ; time.Sleep(200 * time.Millisecond) {
		left = s.leftOfLives()
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	s.tally.count("looks while no life went on")
	for _, what := range left {
		s.tally.bad("left while no life goes on: %s", what)
	}
}

func (s *soak) leftOfLives() (left []string) {
	for _, p := range s.living() {
		if p.life > 0 && p.life < firstSteady {
			left = append(left, p.String())
		}
	}
	if s.image == "" {
		return left
	}
	out, err := stage.Docker("ps", "-a", "--filter", "label=soak.life", "--format", `{{.Label "soak.life"}}`)
	if err != nil {
		return append(left, "containers: "+err.Error())
	}
	for label := range strings.FieldsSeq(out) {
		if !slices.ContainsFunc(s.lasting, func(st *steady) bool { return label == fmt.Sprint(st.number) }) {
			left = append(left, "container of life "+label)
		}
	}
	return left
}

// endSteady ends the sessions that lasted, and says how they fared.
func (s *soak) endSteady() {
	for _, st := range s.lasting {
		s.tally.steady = append(s.tally.steady, st.trends(s.tally)...)
	}
	for _, st := range s.lasting {
		st.c.kill()
		if err := st.c.over(); err != nil {
			s.tally.bad("what lasted, %s, does not end: %v", st.mode.name, err)
		}
	}
	time.Sleep(cleanBound / 5) // the sessions end after their gateways
	for _, st := range s.lasting {
		s.readLog(st.plan)
	}
}

// lookAtTheEnd ends what is ours. Then nothing else may be there: no process, cgroup, record or container.
func (s *soak) lookAtTheEnd() {
	s.watch()
	s.watchBox()
	s.endInnocents()
	var left []string
	for deadline := time.Now().Add(quietBound); ; time.Sleep(2 * time.Second) {
		// A host that was killed has left its place; the next sweep removes it, or the next host.
		s.sweep()
		left = s.leftAtTheEnd()
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, what := range left {
		s.tally.bad("left at the end: %s", what)
	}
}

func (s *soak) leftAtTheEnd() (left []string) {
	for _, p := range stage.Living() {
		if p.PID != 1 && p.PID != os.Getpid() {
			left = append(left, p.String())
		}
	}
	own, err := stage.OwnCgroup()
	if err != nil {
		return append(left, err.Error())
	}
	for _, pattern := range []string{own + "/*/cgroup.procs", "/run/mcp-tether/*.json", "/run/mcp-tether/*.lock", "/run/mcp-tether/*.sock"} {
		found, _ := filepath.Glob(pattern)
		left = append(left, slices.DeleteFunc(found, func(name string) bool {
			return name == "/run/mcp-tether/reap.lock" || name == "/run/mcp-tether/sweep.lock"
		})...)
	}
	if s.image != "" {
		out, err := stage.Docker("ps", "-aq")
		if err != nil || out != "" {
			left = append(left, fmt.Sprintf("containers: %s %v", out, err))
		}
	}
	return left
}
