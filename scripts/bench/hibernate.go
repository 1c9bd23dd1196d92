package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// What a session has while it sleeps or wakes: threads of its front, and MB.
const (
	sleeperThreads = 9
	sleeperWeight  = 2.2 // with what the kernel keeps for it
)

// measureHibernate has more and more servers sleep below one gateway. It weighs them, wakes one, lists them and kills the gateway.
func measureHibernate(b *bench) (table, error) {
	t := table{
		Section: "hibernate",
		Title:   "Asleep: N sessions below one gateway, which is SIGKILLed",
		Columns: []string{"PSS median MB", "PSS max MB", "threads", "one wakes ms", "ps, processor ms a session", "gone after ms", "ms a session"},
	}
	if err := needRoom(b.hibernated*sleeperThreads, float64(b.hibernated)*sleeperWeight); err != nil {
		return t, err
	}
	for _, n := range grown(b.hibernated) {
		if err := b.hibernateOnce(&t, n); err != nil {
			return t, fmt.Errorf("%d sessions: %w", n, err)
		}
	}
	return t, nil
}

func (b *bench) hibernateOnce(t *table, n int) error {
	v, err := b.startVictim(n, b.with("--hibernate=200ms").command(b.self, answerArg))
	if err != nil {
		return err
	}
	defer v.close()
	fronts, err := b.asleep(v, n)
	if err != nil {
		return err
	}
	var weights, threads []float64
	for _, pid := range fronts {
		m, err := memoryOf(pid)
		if err != nil {
			return err
		}
		weights, threads = append(weights, m.pss), append(threads, m.threads)
	}
	wakes, err := v.wakes(min(n, 20))
	if err != nil {
		return err
	}
	listed, err := b.listed()
	if err != nil {
		return err
	}
	gone, err := b.killAsleep(v, killWait+time.Duration(n)*perSession)
	if err != nil {
		return err
	}
	t.add("asleep", fmt.Sprintf("%d sessions", n), median(weights), quantile(weights, 1), median(threads), median(wakes),
		listed.Processor/float64(n), ms(gone), ms(gone)/float64(n))
	return nil
}

// wakes has the gateway call its first servers, each of which sleeps, and returns how long each answer took, in ms.
func (v *victim) wakes(n int) (took []float64, err error) {
	if err := writeAll(v.in, fmt.Appendln(nil, n)); err != nil {
		return nil, err
	}
	line, err := v.readLine("[")
	if err == nil {
		err = json.Unmarshal(line, &took)
	}
	return took, err
}

// listed is what mcp-tether ps costs with all sessions there.
func (b *bench) listed() (cost, error) {
	cmd := exec.Command(b.bin, "ps")
	cmd.Env = b.env
	return costOf(cmd)
}

// asleep waits until no server is left, and returns the fronts.
func (b *bench) asleep(v *victim, n int) (fronts []int, err error) {
	wait := 2*time.Minute + time.Duration(n)*perSession
	if !ready(v.out, unix.POLLIN, v.spawned, wait) {
		return nil, errors.New("wait for the gateway to start all")
	}
	if _, err := v.readLine("ready"); err != nil {
		return nil, err
	}
	servers := 0
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
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
func (b *bench) killAsleep(v *victim, wait time.Duration) (time.Duration, error) {
	from := time.Now()
	if err := unix.Kill(v.pid, unix.SIGKILL); err != nil {
		return 0, fmt.Errorf("kill the gateway: %w", err)
	}
	took, done := v.gone(from, wait)
	_ = v.wait()
	reapOrphans()
	if !done {
		return 0, errors.New("wait for the last death after the gateway's: somebody lives on")
	}
	return took, nil
}
