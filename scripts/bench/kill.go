package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
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
		Columns: []string{"rounds", "servers dead ms", "left alive"},
	}
	subjects := append([]subject{bare()}, b.subjects...)
	for _, size := range []int{50, 500} {
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
			t.add(s.name, strconv.Itoa(size), float64(len(d.left)), median(d.took), slices.Max(d.left))
		}
	}
	return t, nil
}

// deaths are the results of one subject, one entry a round. The time is absent where something was left.
type deaths struct{ took, left []float64 }

func (b *bench) killOnce(s subject, size int, d *deaths) error {
	return stage.Play(func(t *stage.Alone) {
		// Not what the gateway gives: a wrapper would hold that too.
		lifeline := stage.NewLifeline(t, filepath.Join(t.TempDir(), "lifeline"))
		defer lifeline.Close()
		g := stage.Start(t, b.programs, stage.World{})
		spawn(g, "server", s.killCommand("/bin/sh", "-c", treeScript, "sh", strconv.Itoa(size), lifeline.Path))
		g.Call("read", "server")
		var procs []stage.Proc
		stage.Until(t, "all of the tree sleeps", func() bool {
			procs = stage.Below(g.PID)
			awake := slices.DeleteFunc(slices.Clone(procs), func(p stage.Proc) bool { return p.Comm == "sleep" })
			return len(procs)-len(awake) == size
		})
		time.Sleep(50 * time.Millisecond) // a gateway is seldom killed while its server starts
		wait := killWait
		if s.wrap == nil {
			wait = leakWait
		}
		from := time.Now()
		g.Signal(unix.SIGKILL)
		err := lifeline.Wait(wait)
		took := ms(time.Since(from))
		g.Kill()
		left := stage.Outlasting(wait, procs...)
		if err == nil && len(left) == 0 {
			d.took = append(d.took, took)
		}
		d.left = append(d.left, float64(len(left)))
		for _, p := range left {
			_ = p.Signal(unix.SIGKILL)
		}
	})
}

// spawn has a gateway start a server.
func spawn(g *stage.Gateway, name string, server []string) {
	g.Call(append([]string{"spawn", name, "stderr=/tmp/stderr", "--"}, server...)...)
}
