package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// A client that is killed between create and start leaves a container that never ran, and that --rm never removes.

// sudden is what one round does: a process is killed while four clients start their containers.
type sudden struct {
	role  string
	after time.Duration
}

func (k sudden) String() string { return fmt.Sprintf("%s after %v", k.role, k.after) }

func TestKilledWhileContainersStart(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	from := newSeed(t)
	roles := []string{"gateway", "anchor", "supervisor", "launcher"}
	for n := range testkit.Rounds(5) {
		k := sudden{role: roles[n%len(roles)], after: from.between(0, 450*time.Millisecond)}
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			t.Log(k)
			k.round(t, e)
		})
	}
}

func (k sudden) round(t *testing.T, e *engine) {
	t.Helper()
	mark := e.mark(t)
	s := startGateway(t).newSession()
	s.Spawn(setup{Flags: quick(), Env: boxEnviron(e, s)}, fourRuns(t, e, mark)...)
	kill := s.killer(k.role)
	pause(k.after)
	kill()
	s.Gone()
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
}

// killer returns the kill of a process that is there now, or will be soon.
func (s *session) killer(role string) func() {
	s.t.Helper()
	switch role {
	case "launcher":
		pid := s.serverPID()
		return func() { _ = syscall.Kill(pid, syscall.SIGKILL) }
	default:
		return chance{role: role}.kill(s)
	}
}

// The control: a client killed as soon as the engine tells of its container leaves the container in state "created".
func TestBareClientKilledAfterCreateLeavesContainer(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	for range 40 {
		mark := e.mark(t)
		killAtCreate(t, e, mark)
		if slices.ContainsFunc(e.marked(t, mark), func(b box) bool { return b.State == "created" }) {
			return
		}
		e.remove(t, e.marked(t, mark)...)
	}
	t.Error("no container was left in state created, so the rounds of the tethered ones prove nothing")
}

func killAtCreate(t *testing.T, e *engine, mark string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	news := e.events(ctx, t, mark)
	g := startGateway(t)
	s := g.newSession()
	o := order{e: e, image: e.image(t), mark: mark, words: []string{"ignore-eof"}}
	s.Spawn(setup{Bare: true, Env: boxEnviron(e, s)}, o.dockerRun(t, "--rm")...)
	if !news.Scan() {
		t.Fatal("the engine does not tell of the container")
	}
	s.Signal(syscall.SIGKILL)
	wantExit(t, s.Wait(), "signal 9")
	g.Kill()
}
