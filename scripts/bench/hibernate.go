package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// measureHibernate has many servers sleep below one gateway, wakes some, and kills the gateway.
func measureHibernate(b *bench) (table, error) {
	t := table{
		Section: "hibernate",
		Title:   fmt.Sprintf("Asleep: %d sessions below one gateway, watched for %s", b.hibernated, b.idle),
		Columns: []string{"sessions", "median", "mean", "max"},
	}
	n, err := b.startHibernated()
	if err != nil {
		return t, err
	}
	defer n.close()
	for _, step := range []func(*hibernated, *table) error{b.atRest, b.wakeSome, b.killHibernated} {
		if err := n.settle(); err != nil {
			return t, err
		}
		if err := step(n, &t); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *table) each(kase string, xs []float64) {
	t.add("asleep", kase, float64(len(xs)), median(xs), mean(xs), quantile(xs, 1))
}

// hibernated are sessions with --hibernate below a gateway of their own, see hibernated.go.
type hibernated struct {
	*live
	lifeline int // EOF when the last process that the gateway started is dead
	sessions map[int][]process
}

func (b *bench) startHibernated() (*hibernated, error) {
	lifeline, err := newPair(pipes)
	if err != nil {
		return nil, err
	}
	words := append([]string{hibernatedArg, strconv.Itoa(b.hibernated)}, b.hibernating("--hibernate=200ms").command("/bin/sh", "-c", hibernatedServer)...)
	gateway, err := b.startSelf(lifeline[1], words...)
	closeAll(lifeline[1])
	if err != nil {
		closeAll(lifeline[0])
		return nil, err
	}
	n := &hibernated{live: gateway, lifeline: lifeline[0]}
	if err := n.greeted(); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// greeted waits for all the handshakes.
func (n *hibernated) greeted() error {
	n.spawned = time.Now()
	_, err := n.firstByte()
	return err
}

func (n *hibernated) close() { closeAll(n.in, n.out, n.lifeline) }

// settle waits until no server is left, and notes the processes that are there, by session.
func (n *hibernated) settle() error {
	servers := 0
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		procs, err := below(n.pid)
		if err != nil {
			return err
		}
		n.sessions, servers = map[int][]process{}, 0
		for _, p := range procs {
			if p.parent != n.pid { // The front is all that is left of a session that sleeps.
				servers++
				continue
			}
			n.sessions[p.pid] = append(n.sessions[p.pid], p)
		}
		if servers == 0 {
			time.Sleep(3 * time.Second) // what they did on their way to sleep is not what a sleeper does
			return nil
		}
	}
	return fmt.Errorf("wait for all servers to sleep: %d do not", servers)
}

// sum adds up a figure of the processes of each session.
func (n *hibernated) sum(of func(process) (float64, error)) (map[int]float64, error) {
	sums := map[int]float64{}
	for anchor, procs := range n.sessions {
		for _, p := range procs {
			x, err := of(p)
			if err != nil {
				return nil, err
			}
			sums[anchor] += x
		}
	}
	return sums, nil
}

// atRest weighs the sessions and counts what they do.
func (b *bench) atRest(n *hibernated, t *table) error {
	pss, err := n.sum(func(p process) (float64, error) {
		m, err := p.memory()
		return m.pss * 1024 / 1e6, err
	})
	if err != nil {
		return err
	}
	switches := func(p process) (float64, error) {
		a, err := p.activity()
		return a.switches, err
	}
	before, err := n.sum(switches)
	if err != nil {
		return err
	}
	time.Sleep(b.idle)
	after, err := n.sum(switches)
	if err != nil {
		return err
	}
	var weights, woken []float64
	for anchor := range n.sessions {
		weights, woken = append(weights, pss[anchor]), append(woken, after[anchor]-before[anchor])
	}
	t.each("PSS of a session, MB", weights)
	t.each("context switches of a session", woken)
	return nil
}

// wakeSome has the gateway send a message to some sessions, one after the other, and takes the time to the answer.
func (b *bench) wakeSome(n *hibernated, t *table) error {
	var took []float64
	for i := range min(b.hibernated, 50) {
		if err := writeAll(n.in, []byte(strconv.Itoa(i)+"\n")); err != nil {
			return err
		}
		answer := make([]byte, 13) // see hibernated.go
		if err := readFull(n.out, answer); err != nil {
			return err
		}
		us, err := strconv.Atoi(string(answer[:12]))
		if err != nil {
			return fmt.Errorf("read the time of a wake from %q: %w", answer, err)
		}
		took = append(took, float64(us)/1000)
	}
	t.each("from message to answer, server is sh, ms", took)
	return nil
}

// killHibernated kills the gateway and waits for the last death.
func (b *bench) killHibernated(n *hibernated, t *table) error {
	from := time.Now()
	if err := unix.Kill(n.pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill the gateway: %w", err)
	}
	took, done := hungUp(n.lifeline, from, killWait)
	_ = n.wait()
	reapOrphans()
	if !done {
		return errors.New("wait for the last death after the gateway's: somebody lives on")
	}
	t.each("gateway SIGKILLed to the last death of all, ms", []float64{ms(took)})
	return nil
}
