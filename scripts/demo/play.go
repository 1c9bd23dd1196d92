package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mcp-tether/e2e/stage"
)

// A member is one of the processes that must not outlive the gateway.
type member struct {
	name string
	pid  int
	dead bool
	// How long after the gateway's end it died.
	after time.Duration
}

// A run is one telling of the story.
type run struct {
	gateway int
	members []member
	log     string
}

// The roles by how the fixture starts them (e2e/fixture/main.go). They start with the server and are to end with the gateway.
const (
	server = "serve"
	worker = "plain"
	helper = "daemon,clearenv,chdir"
)

var roles = []struct{ name, traits string }{{"server", server}, {"worker", worker}, {"helper", helper}}

// As short as the protocol allows. What matters is that the server has answered before the gateway dies.
const hello = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// perform tells the story once: it starts all, kills the gateway, watches which processes die while patience lasts, and
// ends the rest.
func perform(ctx context.Context, cast stage.Programs, patience time.Duration, wrapper ...string) (r run, err error) {
	err = stage.Play(func(t *stage.Alone) {
		g := stage.Start(t, cast, stage.World{})
		r.gateway = g.PID
		stderr := filepath.Join(g.Dir, "stderr")
		quiet := r.listen(t, stderr)
		s := g.NewSession()
		s.Spawn(stage.Setup{Bare: true, Stderr: stderr}, append(wrapper, s.Node(server, worker, helper)...)...)
		s.WaitReady()
		if answer := s.Ask(hello); !strings.Contains(answer, `"result"`) {
			t.Fatalf("the server did not answer, but: %q", answer)
		}
		all := stage.Holders(s.Life.Path)
		for _, role := range roles {
			// The server's command line names the others' traits as well.
			at := slices.IndexFunc(all, func(p stage.Proc) bool { return len(p.Words()) > 5 && p.Words()[5] == role.traits })
			if at < 0 {
				t.Fatalf("the %s is not there", role.name)
			}
			r.members = append(r.members, member{name: role.name, pid: all[at].PID})
		}
		if len(wrapper) > 0 {
			r.members = append(r.members, member{name: "mcp-tether"})
		}
		r.watch(ctx, g, patience, quiet)
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, r.log)
	}
	return r, err
}

// listen reads all that is written to standard error, and closes quiet when all who could write are dead.
func (r *run) listen(t stage.T, stderr string) (quiet <-chan bool) {
	if err := syscall.Mkfifo(stderr, 0o600); err != nil {
		t.Fatalf("make a pipe: %v", err)
	}
	over := make(chan bool)
	go func() {
		defer close(over)
		b, _ := os.ReadFile(stderr) // waits for the first who can write
		r.log = string(b)
	}()
	// Called when the session has been ended.
	t.Cleanup(func() {
		select {
		case <-over:
		case <-time.After(tetheredPatience):
			t.Errorf("somebody still holds stderr")
		}
	})
	return over
}

// watch kills the gateway and notes who follows it.
func (r *run) watch(ctx context.Context, g *stage.Gateway, patience time.Duration, quiet <-chan bool) {
	type death struct {
		index int
		at    time.Time
	}
	deaths := make(chan death, len(r.members))
	for i, m := range r.members {
		go func() {
			if m.pid == 0 {
				<-quiet
			} else if dead, err := stage.DiesWithin(m.pid, patience+time.Minute); err != nil || !dead {
				return
			}
			deaths <- death{i, time.Now()}
		}()
	}
	killed := time.Now()
	g.Signal(syscall.SIGKILL)
	enough := time.After(patience)
	for range r.members {
		select {
		case <-ctx.Done():
			g.T.Fatalf("%v", ctx.Err())
		case <-enough:
			return
		case d := <-deaths:
			r.members[d.index].dead, r.members[d.index].after = true, d.at.Sub(killed)
		}
	}
}

func (r run) left() (n int) {
	for _, m := range r.members {
		if !m.dead {
			n++
		}
	}
	return n
}

func (r run) lastDeath() (last time.Duration) {
	for _, m := range r.members {
		last = max(last, m.after)
	}
	return last
}
