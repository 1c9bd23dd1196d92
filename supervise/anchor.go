package supervise

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// crashed is the exit code of a Go program that panicked.
const crashed = 2

// Orphan is a session whose supervisor was killed. All processes that the supervisor had started have been reparented
// to the anchor.
type Orphan struct {
	hand    argv.Handover
	args    []string // the anchor's command line
	signals int
	letter  *letter // nil where the supervisor never wrote
	// status is the supervisor's exit code.
	status int
	// began is when the session began, in clock ticks; 0 where the anchor has no foreign children.
	began uint64
}

// Anchor is the process that the gateway spawned. It starts the supervisor with the same command line, passes signals
// on, and returns the supervisor's exit code. It also sees to it that the supervisor does its work. If the supervisor
// was killed instead, the orphan for Recover is not nil. options reads the command line; it is called only when the
// supervisor is late. Call it on the locked main thread.
func Anchor(args []string, options func() Options) (int, *Orphan, error) {
	inherited := proc.ReadAtExec()
	if os.Getenv(session.EnvShared)+os.Getenv(session.EnvBehind) != "" {
		// A host or a front has executed SelfExe, so the command name is "exe".
		proc.SetComm("mcp-tether")
	}
	h, err := Direct()
	if err != nil {
		return ExitFailure, nil, err
	}
	h.Anchor = os.Getpid()
	if err := proc.BecomeSubreaper(); err != nil {
		return ExitFailure, nil, err
	}
	g := guard{args: args, options: options, supervisorFD: -1, began: sinceIfForeign(h)}
	role := noJob
	if h.SharesGroup() {
		role = jobMember
	}
	if g.signals, err = listen(inherited, role); err != nil {
		return ExitFailure, nil, err
	}
	g.mailbox, h.Mailbox = openMailbox()
	g.hand = h
	if runtime.GOMAXPROCS(0) == 1 {
		// The anchor keeps a thread in reserve, as the supervisor does.
		proc.StartThreads(reserveForWaiting)
	}
	if err := g.start(inherited); err != nil {
		return ExitFailure, nil, fmt.Errorf("start the supervisor from %s: %w", proc.SelfExe, err)
	}
	proc.PauseGC(proc.SessionMemory)
	g.watchGateway()
	g.watch()
	return g.conclude()
}

// Direct is the handover to a process without an anchor. It opens a pidfd of the parent and then asks for the parent's
// pid once more. If that has changed, the gateway died before it could be watched.
func Direct() (argv.Handover, error) {
	h := argv.Handover{ParentFD: -1, Mailbox: -1, Parent: os.Getppid()}
	if h.Parent > 0 {
		if fd, err := proc.OpenPidfd(h.Parent); err == nil {
			h.ParentFD = fd
		}
		if os.Getppid() != h.Parent {
			return h, fmt.Errorf("gateway (pid %d) ended while its session started: nothing was started", h.Parent)
		}
	}
	h.ID, h.Terminal, h.Foreign = session.NewID(), proc.OnTerminal(), foreignChildren()
	if !h.Terminal && proc.ControllingTerminal() {
		h.Group = unix.Getpgrp()
	}
	return h, nil
}

// foreignChildren lists the children that this process already has: a shell may have started them and then executed
// mcp-tether in its own place.
func foreignChildren() []proc.ID {
	if !proc.HasChildren() {
		return nil
	}
	var out []proc.ID
	for _, p := range children(new(proc.Reader)) {
		out = append(out, p.ID)
	}
	return out
}

// children lists the children of this process, living and dead.
func children(r *proc.Reader) []proc.Stat {
	all, _ := r.Descendants(os.Getpid())
	return slices.DeleteFunc(all, func(p proc.Stat) bool { return p.PPID != os.Getpid() })
}

// sinceIfForeign is the current time in clock ticks if there are foreign children, else 0.
func sinceIfForeign(h argv.Handover) uint64 {
	if len(h.Foreign) == 0 {
		return 0
	}
	now, _ := proc.Now()
	return now
}

// guard is the anchor's watch over its supervisor.
type guard struct {
	hand    argv.Handover
	args    []string
	options func() Options
	// supervisor is a child that is not waited for before the end, so its pid stays its own.
	supervisor int
	// Descriptors; -1 where there is none. gateways are the pidfds of the parent and of the gateway behind it.
	signals, supervisorFD, mailbox int
	gateways                       []int
	letter                         *letter
	got                            []proc.Caught
	// escalateAt is when the next step is due against a supervisor that should have ended; zero until it is asked to end.
	// asked is when that happened first. stage says which step is next.
	escalateAt time.Time
	asked      time.Time
	stage      stage
	// interrupted is when the last interrupt came from the keyboard.
	interrupted time.Time
	began       uint64
}

// stage says how long a guard has waited for a supervisor that should have ended.
type stage uint8

const (
	usualWait   stage = iota // most sessions end within this
	longestWait              // all grace periods and a margin
	killed                   // the supervisor was sent SIGKILL, or is dying
	unkillable               // SIGKILL has not ended it either
)

const (
	// shortPatience is how long to wait before the command line is read for the grace periods.
	shortPatience = 2 * time.Second
	// margin is what a teardown may take beyond its grace periods on a busy machine.
	margin = 5 * time.Second
	// killPatience is how long a process may take to die of SIGKILL. In a hung system call it does not die.
	killPatience = time.Second
	// startLimit is how long the exec of our own program may take, for example from a file system that does not answer.
	startLimit = 30 * time.Second
	// childPoll is how often to look for the supervisor's end without a pidfd (before Linux 5.3).
	childPoll = 100 * time.Millisecond
)

// start starts the supervisor, and closes the descriptors that only the supervisor needs. The gateway must see end of
// file as soon as no other process holds its pipes.
func (g *guard) start(inherited proc.AtExec) (err error) {
	h := g.hand
	keepOpen(h.ParentFD)
	keepOpen(h.Mailbox)
	if h.ParentFD >= 0 {
		g.gateways = append(g.gateways, h.ParentFD)
	}
	g.supervisor, err = proc.Start(proc.Child{
		Path:        proc.SelfExe,
		Argv:        argv.SupervisorArgs(g.args, h),
		Env:         proc.WithOneProcessor(proc.Environ()),
		NewSession:  !h.SharesGroup(),
		NewGroup:    h.Group != 0,
		CgroupFD:    -1,
		CgroupProcs: -1,
		Inherited:   inherited,
		Until:       g.polled(),
		Limit:       startLimit,
	})
	if err != nil {
		return err
	}
	if h.Mailbox >= 0 {
		_ = unix.Close(h.Mailbox)
	}
	if h.ParentFD >= 0 {
		unix.CloseOnExec(h.ParentFD)
	}
	if fd, err := proc.OpenPidfd(g.supervisor); err == nil {
		g.supervisorFD = fd
	}
	CloseInherited()
	if !h.Terminal {
		dropStreams()
	}
	return nil
}

// keepOpen lets the next exec inherit fd.
func keepOpen(fd int) {
	if fd >= 0 {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
}

// CloseInherited closes the descriptors from 3 on that this process inherited and does not need. The gateway or another
// process may wait for end of file on them.
func CloseInherited() { proc.CloseInherited() }

// dropStreams puts /dev/null in place of standard input and output.
func dropStreams() {
	null, err := proc.OpenNull()
	if err != nil {
		return
	}
	_ = unix.Dup3(null, 0, 0)
	_ = unix.Dup3(null, 1, 0)
	_ = unix.Close(null)
}

// watchGateway watches the gateway as well, where our parent is a launcher.
func (g *guard) watchGateway() {
	if gateway, behind, _ := new(proc.Reader).WatchGateway(g.hand.Parent); behind && gateway.FD >= 0 {
		g.gateways = append(g.gateways, gateway.FD)
	}
}

// watch returns when the supervisor has ended, or cannot be ended. It does not reap the supervisor: conclude does.
func (g *guard) watch() {
	for g.stage != unkillable {
		g.pollOnce()
		if ended, err := proc.HasExited(g.supervisor); ended || err != nil {
			return
		}
		if !g.escalateAt.IsZero() && !time.Now().Before(g.escalateAt) {
			g.escalate(false)
		}
	}
}

// pollOnce waits once, and acts on what has happened.
func (g *guard) pollOnce() {
	fds := g.polled()
	proc.Poll(fds, g.timeout())
	g.onSignals()
	if fds[1].Revents != 0 {
		g.onSupervisorEnd()
	}
	if fds[2].Revents != 0 {
		g.letter = readLetters(g.mailbox, g.letter)
		if fds[2].Revents&unix.POLLHUP != 0 {
			_ = unix.Close(g.mailbox)
			g.mailbox = -1
			g.onSupervisorEnd()
		}
	}
	for i, fd := range fds[3:] {
		if fd.Revents != 0 {
			g.askedToEnd()
			_ = unix.Close(g.gateways[i])
			g.gateways[i] = -1
		}
	}
}

// onSupervisorEnd: the supervisor has closed the mailbox, or its pidfd reports its end. If it cannot be waited for yet,
// it is still dying, or a tracer holds it (ptrace(2)). It gets killPatience for that.
func (g *guard) onSupervisorEnd() {
	if ended, err := proc.HasExited(g.supervisor); ended || err != nil {
		return
	}
	if g.supervisorFD >= 0 {
		_ = unix.Close(g.supervisorFD)
		g.supervisorFD = -1
	}
	g.escalate(true)
}

// polled is what a guard waits for: signals, the end of the supervisor, the mailbox, and the ends of the gateways.
func (g *guard) polled() []unix.PollFd {
	fds := []unix.PollFd{g.input(g.signals), g.input(g.supervisorFD), g.input(g.mailbox)}
	for _, fd := range g.gateways {
		fds = append(fds, g.input(fd))
	}
	return fds
}

func (g *guard) input(fd int) unix.PollFd { return unix.PollFd{Fd: int32(fd), Events: unix.POLLIN} }

func (g *guard) timeout() time.Duration {
	wait := time.Duration(-1)
	if g.supervisorFD < 0 {
		wait = childPoll
	}
	if !g.escalateAt.IsZero() {
		wait = proc.Shorter(wait, max(time.Until(g.escalateAt), 0))
	}
	return wait
}

// onSignals passes signals on to the supervisor.
func (g *guard) onSignals() {
	g.got = proc.ReadCaught(g.signals, g.got[:0])
	for _, c := range g.got {
		switch {
		case c.Signal == unix.SIGCHLD:
			g.onChildren()
		case g.hand.SharesGroup() && c.FromKeyboard():
			g.onKeyboard(c)
		case !c.OwnLimit():
			g.pass(c.Signal)
			if c.Ends() {
				g.askedToEnd()
			}
		}
	}
}

// onChildren continues a stopped supervisor, unless the session is on a terminal: it would do nothing for its session.
func (g *guard) onChildren() {
	if !g.hand.Terminal && proc.HasStopped(g.supervisor) {
		_ = proc.SignalChild(g.supervisor, unix.SIGCONT)
	}
	if len(g.hand.Foreign) > 0 {
		g.reapOrphans()
	}
}

// reapOrphans waits for the dead that foreign children have left to us. A foreign child itself stays a zombie, as below a
// server that knows nothing of it: somebody may hold its pid.
func (g *guard) reapOrphans() {
	var r proc.Reader
	all := children(&r)
	// The supervisor is looked at last. What it leaves when it dies is Recover's, which reads the server's exit code.
	if st, err := r.Stat(g.supervisor); err != nil || st.Dead() {
		return
	}
	for _, c := range all {
		if c.Dead() && !slices.Contains(g.hand.Foreign, c.ID) {
			_, _ = unix.Wait4(c.PID, nil, unix.WNOHANG|unix.WALL, nil)
		}
	}
}

// onKeyboard handles a signal that has reached the server as well. Where the supervisor is not in the terminal's
// foreground group, the second of two interrupts is passed on to it.
func (g *guard) onKeyboard(c proc.Caught) {
	if g.hand.Terminal || c.Signal != unix.SIGINT {
		return
	}
	first := time.Since(g.interrupted) > secondInterrupt
	g.interrupted = time.Now()
	if !first {
		g.pass(c.Signal)
		g.askedToEnd()
	}
}

// pass passes a signal on to the supervisor. It tries twice, so that a transient error does not lose the signal; after
// that there is the watchdog.
func (g *guard) pass(sig unix.Signal) {
	if proc.SignalChild(g.supervisor, sig) != nil {
		_ = proc.SignalChild(g.supervisor, sig)
	}
}

// askedToEnd starts the watchdog's clock: the supervisor has the same reason to end the session.
func (g *guard) askedToEnd() {
	if g.asked.IsZero() {
		g.asked = time.Now()
		g.escalateAt = g.asked.Add(shortPatience)
	}
}

// escalate takes the next step against a supervisor that should have ended: it may be stopped, traced, spinning or
// stuck in a system call. One that is dying needs no signal, only the time to die.
func (g *guard) escalate(dying bool) {
	switch {
	case g.stage == usualWait && !dying:
		g.escalateAt = g.asked.Add(longestEnd(g.options(), g.hand.ID) + margin)
		g.stage = longestWait
	case g.stage < killed:
		if !dying {
			_ = proc.SignalChild(g.supervisor, unix.SIGKILL)
		}
		g.escalateAt = time.Now().Add(killPatience)
		g.stage = killed
	case !dying:
		g.stage = unkillable
	}
}

// longestEnd is the longest time that the end of a session may take.
func longestEnd(o Options, id string) time.Duration {
	end := o.TermGrace + o.KillTimeout
	if o.Containers != ContainersOff && session.MayHaveContainers(id, os.Getuid(), os.Getenv("XDG_RUNTIME_DIR")) {
		end += o.longestRemoval()
	}
	return end
}

// conclude waits for the supervisor, and returns its code, or the orphan that it has left.
func (g *guard) conclude() (int, *Orphan, error) {
	g.letter = readLetters(g.mailbox, g.letter)
	o := &Orphan{
		hand: g.hand, args: g.args, signals: g.signals, letter: g.letter, status: 128 + int(unix.SIGKILL), began: g.began,
	}
	switch {
	case g.stage == unkillable && g.letter != nil && g.letter.closed:
		return g.letter.code, nil, nil
	case g.stage == unkillable:
		return 0, o, nil
	}
	signaled := true
	if ws, err := proc.Wait(g.supervisor); err == nil {
		// Where the status is not known, the supervisor counts as killed: it may have left everything behind.
		o.status, signaled = proc.ExitCode(ws), ws.Signaled()
	}
	switch {
	case g.letter != nil && g.letter.closed:
		return g.letter.code, nil, nil
	case signaled || o.status == crashed:
		return 0, o, nil
	}
	return o.status, nil, nil
}
