package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// measureHibernate has many servers sleep below one gateway, weighs them, and kills the gateway.
func measureHibernate(b *bench) (table, error) {
	t := table{
		Section: "hibernate",
		Title:   fmt.Sprintf("Asleep: %d sessions below one gateway", b.hibernated),
		Columns: []string{"sessions", "median", "mean", "max"},
	}
	v, err := b.startVictim(b.hibernated, b.with("--hibernate=200ms").command(b.self, answerArg))
	if err != nil {
		return t, err
	}
	defer v.close()
	fronts, err := b.asleep(v)
	if err != nil {
		return t, err
	}
	var weights []float64
	for _, pid := range fronts {
		m, err := memoryOf(pid)
		if err != nil {
			return t, err
		}
		weights = append(weights, m.pss)
	}
	t.each("PSS of a session, MB", weights)
	return t, b.killAsleep(v, &t)
}

func (t *table) each(kase string, xs []float64) {
	t.add("asleep", kase, float64(len(xs)), median(xs), mean(xs), quantile(xs, 1))
}

// asleep waits until no server is left, and returns the fronts.
func (b *bench) asleep(v *victim) (fronts []int, err error) {
	if _, err := v.firstByte(); err != nil {
		return nil, err
	}
	servers := 0
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		procs, err := b.below(v.pid)
		if err != nil {
			return nil, err
		}
		fronts, servers = nil, 0
		for _, p := range procs {
			if p.PPID == v.pid { // The front is all that is left of a session that sleeps.
				fronts = append(fronts, p.PID)
			} else {
				servers++
			}
		}
		if servers == 0 {
			time.Sleep(3 * time.Second) // what they need on their way to sleep is not what a sleeper needs
			return fronts, nil
		}
	}
	return nil, fmt.Errorf("wait for all servers to sleep: %d do not", servers)
}

// killAsleep kills the gateway and waits for the last death.
func (b *bench) killAsleep(v *victim, t *table) error {
	from := time.Now()
	if err := unix.Kill(v.pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill the gateway: %w", err)
	}
	took, done := v.gone(from, killWait)
	_ = v.wait()
	reapOrphans()
	if !done {
		return errors.New("wait for the last death after the gateway's: somebody lives on")
	}
	t.each("gateway SIGKILLed to the last death of all, ms", []float64{ms(took)})
	return nil
}
