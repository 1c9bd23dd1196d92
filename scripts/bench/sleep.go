package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// What a session has while it sleeps: threads of its front, and MB with what the kernel keeps for it.
const (
	sleeperThreads = 9
	sleeperWeight  = 2.2
)

// measureSleep has many servers sleep below one gateway, weighs what is left of their sessions and kills the gateway.
func measureSleep(b *bench) (table, error) {
	t := table{
		Title:   "Asleep: sessions below one gateway, which is SIGKILLed",
		Columns: []string{"sessions", "PSS median MB", "PSS max MB", "all gone after ms"},
	}
	n := b.hibernated
	if err := needRoom(n*sleeperThreads, float64(n)*sleeperWeight); err != nil {
		return t, err
	}
	v, err := b.startGateway(n, b.with("--hibernate=200ms").command(b.self, answerArg))
	if err != nil {
		return t, err
	}
	defer v.letGo()
	fronts, err := b.asleep(v)
	if err != nil {
		return t, err
	}
	var weights []float64
	for _, p := range fronts {
		m, err := memoryOf(p.PID)
		if err != nil {
			return t, err
		}
		weights = append(weights, m)
	}
	from := time.Now()
	if err := unix.Kill(v.pid, unix.SIGKILL); err != nil {
		return t, fmt.Errorf("kill the gateway: %w", err)
	}
	for _, p := range fronts {
		if !b.ends(p, from, b.limit()) {
			return t, errors.New("wait for the last death after the gateway's: somebody lives on")
		}
	}
	took := ms(time.Since(from))
	_ = v.wait()
	reapOrphans()
	t.add("with --hibernate", "", float64(len(fronts)), median(weights), quantile(weights, 1), took)
	return t, nil
}

// ends waits for the end of a process.
func (b *bench) ends(p proc.Stat, from time.Time, limit time.Duration) bool {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil || b.procs.Life(p.ID) != proc.Alive { // it has ended, and the number may be another's
		closeAll(fd)
		return true
	}
	defer closeAll(fd)
	return ready(fd, unix.POLLIN, from, limit)
}

// asleep waits until no server is left, and returns the fronts.
func (b *bench) asleep(v *live) (fronts []proc.Stat, err error) {
	if !ready(v.out, unix.POLLIN, v.spawned, b.limit()) {
		return nil, errors.New("wait for the gateway to start all")
	}
	if _, err := v.readLine("ready"); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(b.limit()); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		procs, err := b.below(v.pid)
		if err != nil {
			return nil, err
		}
		fronts = nil
		for _, p := range procs {
			if p.PPID == v.pid { // The front is all that is left of a session that sleeps.
				fronts = append(fronts, p)
			}
		}
		if len(fronts) == len(procs) {
			time.Sleep(3 * time.Second) // what they need on their way to sleep is not what a sleeper needs
			return fronts, nil
		}
	}
	return nil, errors.New("wait for all servers to sleep: some do not")
}
