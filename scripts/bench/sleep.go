package main

import (
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
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
	err := stage.Play(func(play *stage.Alone) {
		g := stage.Start(play, b.programs, stage.World{})
		for i := range n {
			name := strconv.Itoa(i)
			b.spawn(g, name, b.with("--hibernate=200ms").command(b.self, answerArg))
			g.Call("write", name, hello)
			g.Call("read", name)
			g.Call("write", name, initialized)
		}
		var fronts []stage.Proc
		stage.Until(play, "the front is all that is left of each session", func() bool {
			fronts = stage.Below(g.PID)
			return !slices.ContainsFunc(fronts, func(p stage.Proc) bool { return p.PPID != g.PID })
		})
		time.Sleep(3 * time.Second) // what they need on their way to sleep is not what a sleeper needs
		var weights []float64
		for _, p := range fronts {
			m, err := memoryOf(p.PID)
			if err != nil {
				play.Fatalf("%w", err)
			}
			weights = append(weights, m)
		}
		from := time.Now()
		g.Signal(unix.SIGKILL)
		if left := stage.Outlasting(b.limit(), fronts...); len(left) > 0 {
			play.Fatalf("after the gateway's death %d live on", len(left))
		}
		took := ms(time.Since(from))
		g.Kill()
		reapOrphans()
		t.add("with --hibernate", "", float64(len(fronts)), median(weights), quantile(weights, 1), took)
	})
	return t, err
}
