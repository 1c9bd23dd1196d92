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
		Title:   "Gateway SIGKILLed: until the last of N processes that obey SIGTERM is dead",
		Columns: []string{"rounds", "servers dead ms", "p95 ms", "left alive"},
	}
	subjects := append([]subject{bare()}, b.subjects...)
	for _, size := range []int{1, 50, 500} {
		got := map[string]*deaths{}
		for i := range max(b.rounds/10, 1) {
			for _, s := range subjects {
				// Three rounds show well enough that bare ends nothing.
				if s.missing || s.wrap == nil && i >= 3 {
					continue
				}
				if got[s.name] == nil {
					got[s.name] = &deaths{}
				}
				if err := b.killOnce(s, size, got[s.name]); err != nil {
					return t, fmt.Errorf("%s, %d processes: %w", s.name, size, err)
				}
			}
		}
		for _, s := range subjects {
			if s.missing {
				t.missing(s.name, strconv.Itoa(size))
				continue
			}
			d := got[s.name]
			t.add(s.name, strconv.Itoa(size), float64(len(d.left)), median(d.took), quantile(d.took, 0.95), quantile(d.left, 1))
		}
	}
	return t, nil
}

// deaths are the results of one subject, one entry a round. The time is absent where something was left.
type deaths struct{ took, left []float64 }

func (b *bench) killOnce(s subject, size int, d *deaths) error {
	fifo := filepath.Join(b.dir, "lifeline")
	if err := os.Remove(fifo); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the last lifeline: %w", err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		return fmt.Errorf("make a lifeline: %w", err)
	}
	// It is at its end when the last process of the tree has closed it.
	lifeline, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the lifeline: %w", err)
	}
	defer closeAll(lifeline)
	v, err := b.startGateway(1, s.killCommand("/bin/sh", "-c", treeScript, "sh", strconv.Itoa(size), fifo))
	if err != nil {
		return err
	}
	defer v.letGo()
	procs, err := b.settle(v, size)
	if err != nil {
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
	done := ready(lifeline, unix.POLLHUP, from, wait)
	took := ms(time.Since(from))
	_ = v.wait()
	left := b.bury(procs, wait)
	if done && left == 0 {
		d.took = append(d.took, took)
	}
	d.left = append(d.left, float64(left))
	return nil
}

// startGateway starts this program as the gateway of n servers.
func (b *bench) startGateway(n int, server []string) (*live, error) {
	s, err := newStreams(pipes)
	if err != nil {
		return nil, err
	}
	return s, b.fork(s, b.self, append([]string{"gateway", gatewayArg, strconv.Itoa(n)}, server...))
}

// settle waits until all of the tree sleeps, and returns the processes that are there.
func (b *bench) settle(v *live, size int) ([]proc.Stat, error) {
	if _, err := v.firstByte(); err != nil {
		return nil, err
	}
	sleeping := 0
	for deadline := time.Now().Add(killWait); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		procs, err := b.below(v.pid)
		if err != nil {
			return nil, err
		}
		sleeping = 0
		for _, p := range procs {
			if p.Comm == "sleep" {
				sleeping++
			}
		}
		if sleeping == size {
			time.Sleep(50 * time.Millisecond) // a gateway is seldom killed while its server starts
			return procs, nil
		}
	}
	return nil, fmt.Errorf("wait for %d processes: %d sleep", size, sleeping)
}

// bury counts the processes that are still alive after a time, ends them, and reaps all that fell to us.
func (b *bench) bury(left []proc.Stat, wait time.Duration) int {
	for deadline := time.Now().Add(wait); len(left) > 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left = slices.DeleteFunc(left, func(p proc.Stat) bool { return b.procs.Life(p.ID) != proc.Alive })
	}
	for _, p := range left {
		_ = b.procs.Signal(p.ID, unix.SIGKILL)
	}
	reapOrphans()
	return len(left)
}
