package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// treeScript becomes n sleeping processes, itself one of them. It opens the lifeline by its name, so that the servers
// hold a descriptor that the wrapper around them does not hold.
const treeScript = `exec 4>"$2"; i=1; while [ "$i" -lt "$1" ]; do sleep 1000000 & i=$((i+1)); done
echo ready; exec sleep 1000000`

const (
	leakWait = 300 * time.Millisecond // how long a bare tree gets to show that it stays
	killWait = 15 * time.Second
)

// measureKill kills the gateway and waits for the last of a tree that obeys SIGTERM.
func measureKill(b *bench) (table, error) {
	t := table{
		Section: "kill",
		Title:   "Gateway SIGKILLed: until the last of N processes that obey SIGTERM is dead",
		Columns: []string{"rounds", "servers dead ms", "p95 ms", "wrapper gone too ms", "left alive"},
	}
	n := max(b.rounds/10, 1)
	for _, size := range []int{1, 50, 500} {
		name := fmt.Sprintf("%d", size)
		got, err := b.killRounds(size, n)
		if err != nil {
			return t, err
		}
		for _, s := range append([]subject{bare()}, b.subjects...) {
			if s.missing {
				t.missing(s.name, name)
				continue
			}
			d := got[s.name]
			t.add(s.name, name, float64(len(d.left)), median(d.servers), quantile(d.servers, 0.95), median(d.all),
				quantile(d.left, 1))
		}
	}
	return t, nil
}

// deaths are the results of one subject, one entry a round. The times are absent where something was left.
type deaths struct{ servers, all, left []float64 }

// killRounds takes the subjects in turn, n times. Three rounds show well enough that bare ends nothing.
func (b *bench) killRounds(size, n int) (map[string]*deaths, error) {
	got := map[string]*deaths{}
	for i := range n {
		for _, s := range append([]subject{bare()}, b.subjects...) {
			if s.missing || s.wrap == nil && i >= 3 {
				continue
			}
			if got[s.name] == nil {
				got[s.name] = &deaths{}
			}
			if err := b.killOnce(s, size, got[s.name]); err != nil {
				return nil, fmt.Errorf("%s, %d processes: %w", s.name, size, err)
			}
		}
	}
	return got, nil
}

func (b *bench) killOnce(s subject, size int, d *deaths) error {
	v, err := b.startTree(s, size)
	if err != nil {
		return err
	}
	defer v.close()
	if err := b.settle(v, size); err != nil {
		return err
	}
	wait := killWait
	if s.wrap == nil {
		wait = leakWait
	}
	from := time.Now()
	if err := unix.Kill(v.pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill the gateway: %w", err)
	}
	servers, done := hungUp(v.tree, from, wait)
	all, allDone := v.gone(from, wait)
	_ = v.wait()
	if done && allDone {
		d.servers, d.all = append(d.servers, ms(servers)), append(d.all, ms(all))
	}
	d.left = append(d.left, float64(b.bury(v)))
	return nil
}

// victim is a gateway with a session, to be killed.
type victim struct {
	*live
	tree      int // EOF when the last server process has closed it; -1 without one
	inherited int // the same, for everything that the gateway started
	procs     []proc.Stat
	pidfds    []int // of procs, except those that only sleep: a wrapper holds no descriptor that could tell of its end
}

// startTree starts one whose server is a tree of a size.
func (b *bench) startTree(s subject, size int) (*victim, error) {
	fifo := filepath.Join(b.dir, "lifeline")
	if err := os.Remove(fifo); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the last lifeline: %w", err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		return nil, fmt.Errorf("make a lifeline: %w", err)
	}
	tree, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the lifeline: %w", err)
	}
	v, err := b.startVictim(1, s.killCommand("/bin/sh", "-c", treeScript, "sh", strconv.Itoa(size), fifo))
	if err != nil {
		closeAll(tree)
		return nil, err
	}
	v.tree = tree
	return v, nil
}

// startVictim starts this program as the gateway of n servers.
func (b *bench) startVictim(n int, server []string) (*victim, error) {
	inherited, err := newPair(pipes)
	if err != nil {
		return nil, err
	}
	defer closeAll(inherited[1])
	s, err := newStreams(pipes)
	if err == nil {
		err = b.fork(s, b.self, append([]string{"gateway", gatewayArg, strconv.Itoa(n)}, server...), inherited[1])
	}
	if err != nil {
		closeAll(inherited[0])
		return nil, err
	}
	return &victim{live: s, tree: -1, inherited: inherited[0]}, nil
}

// settle waits until all of the tree sleeps, and notes the processes that are there.
func (b *bench) settle(v *victim, size int) error {
	if _, err := v.firstByte(); err != nil {
		return err
	}
	for deadline := time.Now().Add(killWait); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error
		if v.procs, err = b.below(v.pid); err != nil {
			return err
		}
		sleeping := 0
		for _, p := range v.procs {
			if p.Comm == "sleep" {
				sleeping++
			}
		}
		if sleeping == size {
			v.watch()
			time.Sleep(50 * time.Millisecond) // a gateway is seldom killed while its server starts
			return nil
		}
	}
	return fmt.Errorf("wait for %d processes: there are %d", size, len(v.procs))
}

// watch opens the pidfds.
func (v *victim) watch() {
	for _, p := range v.procs {
		if p.Comm == "sleep" {
			continue
		}
		if fd, err := unix.PidfdOpen(p.PID, 0); err == nil {
			v.pidfds = append(v.pidfds, fd)
		}
	}
}

// gone waits until everything that the gateway started has ended, and returns how long after from that was.
func (v *victim) gone(from time.Time, limit time.Duration) (time.Duration, bool) {
	done := ready(v.inherited, unix.POLLHUP, from, limit)
	for _, fd := range v.pidfds {
		done = ready(fd, unix.POLLIN, from, limit) && done
	}
	return time.Since(from), done
}

// hungUp waits until no process holds the other end of fd, and says how long after from that was.
func hungUp(fd int, from time.Time, limit time.Duration) (time.Duration, bool) {
	done := ready(fd, unix.POLLHUP, from, limit)
	return time.Since(from), done
}

// bury counts the processes that are still alive, ends them, and reaps all that fell to us. A process closes its files
// shortly before it is dead to others, so a process on its way gets a moment.
func (b *bench) bury(v *victim) int {
	left := v.procs
	for deadline := time.Now().Add(leakWait); len(left) > 0 && time.Now().Before(deadline); {
		left = slices.DeleteFunc(left, func(p proc.Stat) bool { return b.procs.Life(p.ID) != proc.Alive })
		time.Sleep(time.Millisecond)
	}
	for _, p := range left {
		_ = b.procs.Signal(p.ID, unix.SIGKILL)
	}
	reapOrphans()
	return len(left)
}

func (v *victim) close() {
	closeAll(v.tree, v.inherited, v.in, v.out)
	closeAll(v.pidfds...)
}
