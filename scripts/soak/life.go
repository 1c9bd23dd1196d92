//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// cleanBound is how long after its gateway's end a life may have processes or containers: the graces, and the anchor's watchdog, on a
// busy machine. Where anchor and supervisor were killed, a sweep must follow.
const cleanBound = 25 * time.Second

// life is one session with its gateway.
type life struct {
	plan
	*soak
	c     *client
	calls int
	// hurt: something was killed or stopped, so a call may fail.
	hurt bool
	// killed has each role of mcp-tether that was killed.
	killed map[string]bool
	notes  strings.Builder
}

func (l *life) note(format string, args ...any) {
	line := fmt.Sprintf("%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	l.notes.WriteString(line)
	if l.aloud {
		fmt.Print(line)
	}
}

// fail notes what must not be, and keeps all that is known of this life.
func (l *life) fail(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	l.note("BAD: %s", what)
	l.tally.bad("life %d (%s): %s", l.number, l.mode.name, what)
	log, _ := os.ReadFile(l.log())
	_ = os.WriteFile(fmt.Sprintf("%s/%d-%d.txt", l.dir, l.tally.seed, l.number), []byte(l.notes.String()+"\n"+string(log)), 0o644)
}

// live lives the life from beginning to end.
func (s *soak) live(number int) {
	l := &life{plan: makePlan(s.tally.seed, number, s.image != ""), soak: s, killed: map[string]bool{}}
	l.note("%s", l.plan)
	s.tally.count("sessions, " + l.mode.name)
	var err error
	if l.c, err = startClient(l.wrapped(s), fmt.Sprint(lifeVariable, number)); err != nil {
		l.fail("%v", err)
		return
	}
	if _, err = l.c.await(); err == nil {
		for i := 0; i < len(l.steps) && l.take(l.steps[i]); i++ {
		}
	} else if l.mayFail() && !errors.Is(err, errHangs) {
		l.tally.count("clients that did not come up, as what they share was killed")
	} else {
		l.fail("the client did not come up: %v", err)
	}
	l.end()
	l.judge()
	s.readLog(l.plan)
}

// readLog counts what a session says of itself in its log, and removes what it has left there.
func (s *soak) readLog(p plan) {
	log, _ := os.ReadFile(p.log())
	_ = errors.Join(os.Remove(p.log()), os.RemoveAll(p.place()))
	type counts struct{ Sleeps, Restarts int }
	sessions := map[string]counts{} // Each event tells of all until then.
	for line := range bytes.Lines(log) {
		var event struct {
			Session string
			counts
		}
		if bytes.Contains(line, []byte("not in the history")) {
			s.tally.count("sessions that could not be written to the history")
		}
		if json.Unmarshal(line, &event) == nil {
			was := sessions[event.Session]
			sessions[event.Session] = counts{max(was.Sleeps, event.Sleeps), max(was.Restarts, event.Restarts)}
		}
	}
	for _, n := range sessions {
		s.tally.add("naps", n.Sleeps)
		s.tally.add("servers started again after their end", n.Restarts)
	}
}

// take takes one step. It is false when the session is over.
func (l *life) take(st step) bool {
	var target func() []process
	switch st.what {
	case stepPause:
		time.Sleep(st.wait)
		return true
	case stepCall:
		return l.call(nil)
	case stepCrash:
		target = l.one(st.pick, func(p process) bool { return p.role == roleMember })
	case stepKill, stepFreeze:
		target = l.one(st.pick, func(p process) bool { return p.role != roleMember && p.role != roleOther })
	case stepBoth:
		target = l.pair
	}
	strike := func() {
		if st.what != stepFreeze {
			time.Sleep(st.wait)
		}
		l.strike(st, target())
	}
	if !st.amid {
		strike()
		return true
	}
	return l.call(strike)
}

// one gives one of the life's processes of that kind. A shared server, its session and its host belong to every life that has them.
func (l *life) one(pick uint64, is func(process) bool) func() []process {
	return func() []process {
		all := slices.DeleteFunc(l.living(), func(p process) bool {
			return !is(p) || p.is(traitsKept) || p.gateway() || p.life != l.number && !(l.mode.shared && l.isWild(p))
		})
		if len(all) == 0 {
			return nil
		}
		return []process{all[pick%uint64(len(all))]}
	}
}

// isWild: whether a process belongs to a life whose shared server may be killed.
func (l *life) isWild(p process) bool {
	if p.life == 0 || p.life >= firstSteady || p.role == roleFront {
		return false
	}
	other := makePlan(l.tally.seed, p.life, l.image != "")
	return other.mode.shared && !other.mode.spared
}

// pair gives the anchor and the supervisor of the life.
func (l *life) pair() []process {
	return slices.DeleteFunc(of(l.number, l.living()), func(p process) bool { return p.role != roleAnchor && p.role != roleSupervisor })
}

// strike kills or stops processes.
func (l *life) strike(st step, targets []process) {
	for _, p := range targets {
		// Without its anchor a supervisor has the look of one (roleOf).
		if p.role == roleAnchor && p.PPID == 1 && l.killed[roleAnchor] {
			p.role = roleSupervisor
		}
		name := p.role
		if name == roleMember {
			name = "process of a server"
		}
		sig, what := unix.SIGKILL, "killed: "+name
		if st.what == stepFreeze {
			sig, what = unix.SIGSTOP, "stopped for a while: "+name
		}
		l.hurt = true
		err := p.Signal(sig)
		l.note("%s: %s: %v", what, p, err)
		if err != nil {
			continue
		}
		l.tally.count(what)
		if sig == unix.SIGKILL {
			l.killed[p.role] = true
			continue
		}
		time.Sleep(st.wait)
		l.note("goes on: %s: %v", p, p.Signal(unix.SIGCONT))
	}
}

// mayFail: whether a call may fail. Another life may have killed the server of both.
func (l *life) mayFail() bool { return l.hurt || l.mode.shared && !l.mode.spared }

// call makes a call, with something that happens while it is on its way. It is false when no more calls can be made.
func (l *life) call(amid func()) bool {
	for began, failed := time.Now(), 0; ; time.Sleep(time.Second) {
		l.calls++
		order, right := l.plan.call(l.soak, l.calls)
		l.c.send(order)
		if amid != nil {
			amid()
			amid = nil
		}
		text, err := l.c.await()
		switch {
		case err == nil && text == right:
			l.tally.count("calls answered, of lives")
			return true
		case err == nil:
			l.fail("call %d has the answer %q", l.calls, text)
			return true
		}
		l.note("call %d: %v", l.calls, err)
		if errors.Is(err, errHangs) {
			l.fail("call %d: %v", l.calls, err)
			return false
		}
		if !l.mayFail() {
			l.fail("call %d failed, though nothing was touched: %v", l.calls, err)
			return false
		}
		l.tally.count("calls that failed after something was killed")
		if !l.mode.restarts || l.killed[roleFront] || strings.Contains(err.Error(), "client has ended") {
			return false
		}
		// The next message starts the server again, unless the log says that none could take its place.
		if log, _ := os.ReadFile(l.log()); bytes.Contains(log, []byte("the server cannot be restarted")) {
			l.tally.count("sessions that ended with their server, as it asked for roots late")
			return false
		}
		// After a few crashes in a row it pauses, longer each time, and says so.
		if !strings.Contains(err.Error(), "next try in ") {
			failed++
		}
		if failed == 5 || time.Since(began) > patience {
			l.fail("call %d failed again and again: %v", l.calls, err)
			return false
		}
	}
}

// end ends the gateway as planned.
func (l *life) end() {
	l.note("the gateway %s", l.ending)
	l.tally.count("gateway " + l.ending)
	switch l.ending {
	case endClose:
		l.c.send(map[string]any{"close": true})
		if _, err := l.c.await(); errors.Is(err, errHangs) {
			l.fail("closing hangs")
		}
	case endExit:
		l.c.send(struct{}{}) // whatever it is: its end of input is what follows
	case endKill:
		l.c.kill()
	case endGroup:
		l.c.crash()
	case endLeave:
		l.hurt = true
		l.strike(step{what: stepKill}, slices.DeleteFunc(of(l.number, l.living()), func(p process) bool { return p.role == roleMember || l.mode.shared && p.role != roleFront }))
		l.c.kill()
	}
	if err := l.c.over(); err != nil {
		l.fail("the gateway does not end: %v", err)
	}
}

// judge waits until nothing is left.
func (l *life) judge() {
	began := time.Now()
	left := l.leftWithin(cleanBound)
	if len(left) > 0 && l.killed[roleAnchor] && l.killed[roleSupervisor] {
		l.tally.count("lives that needed a sweep by hand")
		l.note("sweeps: %v", left)
		l.sweep()
		l.forgive()
		left = l.leftWithin(5 * time.Second)
	}
	switch {
	case len(left) == 0:
		l.tally.cleanAfter(time.Since(began))
	default:
		l.fail("left: %s", strings.Join(left, "; "))
		for _, p := range of(l.number, l.living()) {
			_ = p.Signal(unix.SIGKILL)
		}
		if l.image != "" {
			_ = stage.RemoveBoxes(l.label())
		}
	}
	l.judgeKept()
}

// forgive ends what docs/guarantees.md says cannot be found: without a cgroup, and with both processes killed, a process whose
// environment is cleared.
func (l *life) forgive() {
	if !slices.Contains(l.mode.flags, "--cgroup=off") || !l.killed[roleAnchor] || !l.killed[roleSupervisor] {
		return
	}
	for _, p := range of(l.number, l.living()) {
		if p.is(traitsCleared) {
			_ = p.Signal(unix.SIGKILL)
			l.tally.count("processes of the kind that cannot be found (guarantees.md)")
		}
	}
}

// judgeKept looks for what was to stay, and ends it.
func (l *life) judgeKept() {
	if !l.keep {
		return
	}
	kept := 0
	for _, p := range l.living() {
		if p.life == l.number && p.is(traitsKept) {
			_ = p.Signal(unix.SIGKILL)
			l.tally.count("kept processes that were left alone")
			kept++
		}
	}
	// A server that crashed early has none. One that was started again has left several.
	if kept == 0 && !l.hurt {
		l.fail("what was to be kept is gone")
	}
}

func (l *life) leftWithin(bound time.Duration) (left []string) {
	for deadline := time.Now().Add(bound); ; time.Sleep(50 * time.Millisecond) {
		if left = l.left(); len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// left names what is there of the life. Of a shared server others may be there.
func (l *life) left() (out []string) {
	for _, p := range of(l.number, l.living()) {
		if !l.mode.shared || p.role == roleFront {
			out = append(out, p.String())
		}
	}
	if len(out) == 0 && (l.mode.boxed || l.mode.boxes) {
		for _, id := range stage.Boxes(l.label()) {
			out = append(out, "container "+id)
		}
	}
	return out
}
