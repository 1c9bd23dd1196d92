package front

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// backend is the session behind the front, which is our child.
type backend struct {
	// pid is that of its anchor, 0 while there is none; code is the exit code of the last one.
	pid, code int
	// attached says that it is a host instead of a child, and hasPlace that this has taken us.
	attached, hasPlace bool
	// hostFate is what has become of a host, for the calls that it leaves open.
	hostFate string
	// began is when it was started.
	began time.Time
	// asked says that it was sent a signal to end.
	asked bool
	// escalateAt is when the next step is due against a backend that should have ended; zero while it may go on.
	escalateAt time.Time
	// stage says which step that is.
	stage escalation
	// seen is what the looks at its tree have shown.
	seen seen
}

// behind is what stands behind the front.
type behind struct {
	back  backend
	phase phase
	fall  fall
	// unended says that the last backend's anchor was killed: what is left of it ends by itself.
	unended bool
}

// escalation is what was done to a backend that should have ended.
type escalation uint8

const (
	letEnd escalation = iota // its standard input was closed, or it was sent a signal
	reminded
	killed
	escalations = 1 + iota // how many
)

func (b *backend) there() bool { return b.pid > 0 || b.attached }

// startBackend starts a backend between new pipes. It reports false if a host has still to give us a place (attach).
func (f *front) startBackend() (ready bool, err error) {
	if f.o.Finder != nil {
		if err = f.attach(); err == nil || f.relay.Spoke() {
			return false, err
		}
		f.goAlone(err)
	}
	return true, f.startSession()
}

func (f *front) startSession() error {
	behind := session.EnvBehind + "=" + f.record.ID
	if f.unended {
		behind += session.Unended
	}
	child := proc.Child{NewGroup: leads(os.Getppid())}
	done, err := f.relay.Connect(&child)
	if err != nil {
		return fmt.Errorf("make the server's pipes: %w", err)
	}
	defer done()
	f.back = backend{began: time.Now()}
	f.back.pid, err = f.o.Start(child, behind)
	return err
}

// leads reports whether a process leads a process group. If the gateway has made the waiter do so, the server is to do it as well.
func leads(pid int) bool {
	group, err := unix.Getpgid(pid)
	return err == nil && group == pid
}

// onChild acts on a SIGCHLD: the backend has ended, or was stopped. It would do nothing for its session.
func (f *front) onChild() {
	b := &f.back
	if b.pid == 0 {
		return
	}
	if ended, err := proc.HasExited(b.pid); err == nil && !ended {
		if proc.HasStopped(b.pid) {
			_ = proc.SignalChild(b.pid, unix.SIGCONT)
		}
		return
	}
	code := waiting.ExitFailure
	if ws, err := proc.Wait(b.pid); err == nil {
		code, f.unended = proc.ExitCode(ws), ws.Signaled()
	}
	f.onBackendEnd(code)
}

// onBackendEnd: the backend has ended, and with it all that its server had started.
func (f *front) onBackendEnd(code int) {
	f.back.pid, f.back.code, f.back.escalateAt = 0, code, time.Time{}
	f.lookAtOwners()
	if f.watch.hungUp() {
		f.onClientClosed()
	}
	switch {
	case f.phase != over && f.unstartable():
		f.cause = f.cause.Then(session.CauseServer, !f.back.asked)
		f.step(onEnd)
	case f.phase == awake:
		f.onLoss()
	}
	f.step(onGone)
	f.done = f.done || f.phase == over
}

// onLoss: a backend has ended that nothing was to end.
func (f *front) onLoss() {
	may, why := f.mayRestart()
	if may {
		f.step(onCrash)
		return
	}
	if why != "" {
		f.log.Warn().Str("why", why).Msg("the server cannot be restarted")
	}
	f.cause = f.cause.Then(session.CauseServer, !f.back.asked)
}

// letGo leaves a host, which lives on for others.
func (f *front) letGo() {
	f.o.Finder.HangUp()
	f.back.attached = false
	f.onBackendEnd(0)
}

func (f *front) ask(sig unix.Signal) {
	if f.back.pid == 0 {
		return
	}
	f.back.asked = true
	if proc.SignalChild(f.back.pid, sig) != nil {
		_ = proc.SignalChild(f.back.pid, sig)
	}
	f.expectEnd()
}

func (f *front) expectEnd() {
	if f.back.escalateAt.IsZero() {
		f.back.escalateAt = time.Now().Add(f.o.EndLimit)
	}
}

// escalate takes the next step against a backend that should have ended. Its anchor ends a supervisor that hangs once it is
// asked to end. If the anchor is killed, its supervisor ends the session.
func (f *front) escalate() {
	b := &f.back
	if b.attached {
		f.done = true
		return
	}
	switch b.stage++; b.stage {
	case reminded:
		_ = proc.SignalChild(b.pid, unix.SIGTERM)
	case killed:
		_ = proc.SignalChild(b.pid, unix.SIGKILL)
	default:
		b.escalateAt = time.Time{}
		return
	}
	f.log.Warn().Int("pid", b.pid).Msg("the server's session has not ended in time")
	b.escalateAt = time.Now().Add(f.o.EndLimit)
}

// forget closes the pipes of a backend that has ended. What its server has written is passed on, and what it has not answered gets an
// error that says why.
func (f *front) forget(why string) {
	f.clock.lostAt = time.Time{}
	f.relay.Disconnect(why)
	f.back = backend{}
	if f.o.Finder != nil && f.lease == nil {
		f.openRecord()
	} else {
		f.writeRecord()
	}
	debug.FreeOSMemory()
}
