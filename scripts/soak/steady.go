//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// firstSteady is the number of the first session that lasts; no life has such a number.
const firstSteady = 1 << 30

// sample is what a process holds.
type sample struct {
	PSS            int // kB
	Files, Threads int
}

// trend compares the first quarter of a process's samples with the last, by their medians.
type trend struct {
	Name        string
	Minutes     int
	First, Last sample
	Calls       int
}

// steady is a session that lasts as long as the soak, and is called all the time.
type steady struct {
	plan
	pause func(n int) time.Duration
	calls atomic.Int32
	c     *client
	// samples of each process of mcp-tether, by role and pid.
	samples map[string][]sample
}

// steadies lists them.
func steadies(engine bool) []*steady {
	second := func(int) time.Duration { return time.Second }
	all := []*steady{
		{plan: plan{mode: mode{name: "run"}, server: serverOwn}, pause: second},
		{plan: plan{mode: mode{name: "--hibernate=1s", flags: []string{"--hibernate=1s"}}, server: serverOwn}, pause: func(n int) time.Duration { return time.Duration(n%4) * time.Second }},
		{plan: plan{mode: sparedShare(engine), server: serverEverything}, pause: second},
		{plan: plan{mode: mode{name: "bare", bare: true}, server: serverEverything}, pause: func(int) time.Duration { return 5 * time.Second }},
	}
	if engine {
		all = append(all, &steady{plan: plan{mode: mode{name: "containers", boxes: true}, server: serverOwn}, pause: func(int) time.Duration { return 8 * time.Second }})
	}
	for i, s := range all {
		s.number, s.samples = firstSteady+i, map[string][]sample{}
	}
	return all
}

func sparedShare(engine bool) mode {
	all := modes(engine)
	return all[slices.IndexFunc(all, func(m mode) bool { return m.shared && m.spared })]
}

// start starts the session, whose client must come up.
func (s *steady) start(of *soak) (err error) {
	if s.c, err = startClient(s.wrapped(of), fmt.Sprint(lifeVariable, s.number)); err == nil {
		_, err = s.c.await()
	}
	if err != nil {
		return fmt.Errorf("start what lasts, %s: %w", s.mode.name, err)
	}
	return nil
}

// call calls until done is closed. Nobody touches this session, so every answer must be right.
func (s *steady) call(of *soak, done <-chan struct{}) {
	t := of.tally
	for n := 1; ; n++ {
		select {
		case <-done:
			return
		case <-time.After(s.pause(n)):
		}
		order, right := s.plan.call(of, n)
		s.c.send(order)
		text, err := s.c.await()
		if err == nil && text != right {
			err = fmt.Errorf("the answer is %q", text)
		}
		if err != nil {
			select {
			case <-done:
				return
			default:
			}
			t.bad("what lasts, %s, call %d: %v", s.mode.name, n, err)
			if errors.Is(err, errHangs) || strings.Contains(err.Error(), "the client has ended") {
				return
			}
		}
		s.calls.Add(1)
		t.count("calls answered, of sessions that last")
	}
}

// measure takes a sample of each process of mcp-tether that the session has.
func (s *steady) measure(all []process) {
	for _, p := range all {
		if p.life != s.number || p.role == roleMember || p.role == roleOther {
			continue
		}
		name := fmt.Sprintf("%s: %s %d", s.mode.name, p.role, p.PID)
		if got, err := sampleOf(p.PID); err == nil {
			s.samples[name] = append(s.samples[name], got)
		}
	}
}

func sampleOf(pid int) (s sample, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	rollup, err := os.ReadFile(dir + "/smaps_rollup")
	if err != nil {
		return s, fmt.Errorf("read memory of pid %d: %w", pid, err)
	}
	_, rest, _ := strings.Cut(string(rollup), "\nPss:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		s.PSS, _ = strconv.Atoi(fields[0])
	}
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return s, fmt.Errorf("list descriptors of pid %d: %w", pid, err)
	}
	threads, err := os.ReadDir(dir + "/task")
	if err != nil {
		return s, fmt.Errorf("list threads of pid %d: %w", pid, err)
	}
	s.Files, s.Threads = len(files), len(threads)
	return s, nil
}

// fewest is how many samples a process must have to be judged: others have not lasted.
const fewest = 12

// trends compares, and notes what grows. The first samples are left out: a process that has just started holds less.
func (s *steady) trends(t *tally) (out []trend) {
	for name, all := range s.samples {
		if len(all) < fewest {
			continue
		}
		rest := all[2:]
		quarter := len(rest) / 4
		tr := trend{name[:strings.LastIndexByte(name, ' ')], len(all), middle(rest[:quarter]), middle(rest[len(rest)-quarter:]), int(s.calls.Load())}
		if tr.grows() {
			t.bad("%s grows: %+v, then %+v", name, tr.First, tr.Last)
		}
		out = append(out, tr)
	}
	slices.SortFunc(out, func(a, b trend) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// bounded is what a process may come to hold, in kB, before the collector of Go runs (proc.PauseGC, in the front).
const bounded = 12 << 10

// grows allows for what the kernel and the collector do: a fifth and 400 kB, or all below the bound, two descriptors, two threads.
func (t trend) grows() bool {
	return t.Last.PSS > max(t.First.PSS*6/5+400, bounded) || t.Last.Files > t.First.Files+2 || t.Last.Threads > t.First.Threads+2
}

func middle(all []sample) (m sample) {
	for _, f := range []func(*sample) *int{
		func(s *sample) *int { return &s.PSS }, func(s *sample) *int { return &s.Files }, func(s *sample) *int { return &s.Threads },
	} {
		var values []int
		for i := range all {
			values = append(values, *f(&all[i]))
		}
		slices.Sort(values)
		*f(&m) = values[len(values)/2]
	}
	return m
}
