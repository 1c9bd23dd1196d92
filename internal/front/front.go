package front

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/display"
	"mcp-tether/internal/mcp"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// reserveThreads is how many threads are kept in reserve: for a wait that takes long, and for the collector, which works
// when a backend has gone. Where no thread can be had later, the Go runtime aborts.
const reserveThreads = 3

// memory bounds what a front comes to hold, in bytes: calls and the search for reasons not to nap leave some behind. Messages
// pass through it in pieces, so little of that lives at a time. With 32 MiB instead, a front that was called each second had
// 27 MB after half an hour.
const memory = 12 << 20

// front is a session whose server may be replaced.
type front struct {
	o      Options
	log    zerolog.Logger
	reader proc.Reader
	watch  watch
	recorded
	// page is what the front shares with the waiter.
	page  *waiting.Page
	relay *relay.Relay
	behind
	clock   clock
	pauses  pauses
	restart restart
	ending
}

// Run is the front: it serves the client until the session ends, or the server is asleep and the waiter can do without a front. It
// returns the exit code. Call it on the locked main thread.
func Run(o Options) (int, error) {
	f := &front{o: o}
	f.phase, f.record.ID = awake, session.NewID()
	f.clock.started = time.Now()
	proc.SetComm("mcp-tether") // Done already if the binary has an entry of ours.
	var happening waiting.Event
	if _, f.page, happening, _ = waiting.Entered(); f.page == nil {
		f.page = new(waiting.Page) // Nobody reads it.
	}
	was, err := f.saved()
	if err != nil {
		return waiting.ExitFailure, err
	}
	if f.log, err = display.Open(o.Log, f.record.ID, o.Name); err != nil {
		return waiting.ExitFailure, err
	}
	if was != nil {
		err = f.resumeSession(was, happening)
	} else {
		err = f.beginSession()
	}
	if err != nil {
		f.closeRecord()
		return waiting.ExitFailure, err
	}
	proc.PauseGC(memory)
	f.leaveIfIdle(true) // A client that has not said anything may be silent for long.
	for !f.done && !f.left {
		f.pollOnce()
	}
	if f.left {
		return 0, nil
	}
	code := f.finish()
	if f.hostReason != "" {
		return code, errors.New(f.hostReason)
	}
	return code, nil
}

func (f *front) beginSession() error {
	if err := proc.ReadsOwnTable(); errors.Is(err, proc.ErrOtherTable) {
		return fmt.Errorf("%w: nothing was started; mount the namespace's own /proc (unshare --mount-proc)", err)
	}
	if f.o.Finder != nil {
		f.watch.owners = f.o.Finder.Owners()
	}
	if err := f.listen(); err != nil {
		return err
	}
	f.watch.fillRecord(&f.record)
	if f.o.Finder == nil || f.o.Lazy {
		f.openRecord()
	}
	now := time.Now()
	f.relay = relay.New(relay.ReadEnd(0), relay.WriteEnd(1), mcp.DefaultMax, now)
	if err := f.prepareRelay(); err != nil {
		return err
	}
	f.clock.lookAt = f.firstLook(now)
	var err error
	if f.restart.changes, err = watchFor(f.o.RestartOn); err != nil {
		return err
	}
	return f.startFirst()
}

// listen begins to watch, and tells the waiter so.
func (f *front) listen() error {
	err := f.watch.open(&f.reader, f.page)
	if err == nil {
		f.page.SetFront(f.o.EOFGrace+escalations*f.o.EndLimit, f.watch.gatewayFD())
		f.page.Listening()
	}
	return err
}

func (f *front) prepareRelay() error {
	proc.StartThreads(reserveThreads)
	f.relay.OnFirstWrite = f.onFirstWrite
	if f.o.Lazy {
		k := &cache{command: f.o.Command, log: f.log}
		f.relay.Cache(k.load, k.save)
	}
	return f.relay.Stderr(f.o.Guard && f.o.Finder == nil, f.o.KeepStderr && f.o.Finder == nil)
}

// startFirst starts the first backend, unless that is left to the first message. Which host a session shares depends on that.
func (f *front) startFirst() error {
	if !f.o.Lazy && f.o.Finder == nil {
		return f.startSession()
	}
	f.relay.Disconnect("")
	f.phase = asleep
	f.writeRecord()
	return nil
}

func (f *front) pollOnce() {
	before := f.state()
	var w polled
	f.watch.poll(&w)
	w[onChanges] = waitFor(f.restart.changes.polled())
	w[onHostWord] = waitFor(f.hostFD())
	streams := f.relay.Polls()
	copy(w[onRelayed:], streams[:])
	happened := proc.Poll(w[:], f.timeout(time.Now())) > 0
	if w[onChanges].Revents != 0 {
		f.restart.changes.read(time.Now())
	}
	f.onRelay(f.relay.Move(relay.Polled(w[onRelayed:])))
	f.onWatched(&w)
	if w[onHostWord].Revents != 0 && f.hostFD() >= 0 {
		f.onHost()
	}
	f.onTime(time.Now())
	if f.state() != before {
		f.writeRecord()
	}
	f.leaveIfIdle(happened)
}

func (f *front) onWatched(w *polled) {
	for _, c := range f.watch.signals() {
		f.onSignal(c)
	}
	if f.watch.closed(0, w[onStdin]) {
		f.onClientClosed()
	}
	if f.watch.closed(1, w[onStdout]) {
		f.end(session.CauseStdout)
	}
	if w[onParent].Revents|w[onGateway].Revents != 0 || f.watch.mustAsk() {
		f.lookAtOwners()
	}
}

// lookAtOwners ends the session if the parent, or the gateway behind it, has ended.
func (f *front) lookAtOwners() {
	if f.watch.lost(&f.reader) {
		f.end(session.CauseGateway)
	}
}

// onSignal acts on a signal. Those that do not end a session are passed on.
func (f *front) onSignal(sig syscall.Signal) {
	switch {
	case sig == unix.SIGCHLD:
		f.onChild()
		return
	case f.onRestartSignal(sig):
		return
	case !proc.Ends(sig):
		if f.back.pid > 0 {
			_ = proc.SignalChild(f.back.pid, sig)
		}
		return
	}
	if f.bySignal == 0 {
		f.bySignal = sig
	}
	f.end(session.CauseSignal)
}

// onClientClosed: the client has closed its end. What it sent before is still answered.
func (f *front) onClientClosed() {
	f.closing = true
	switch {
	case f.phase == awake, f.phase == trying:
		f.end(session.CauseStdin)
	case f.phase == asleep:
		f.endIfClosed()
	}
}

// end ends the session. The first cause counts, see session.Cause.
func (f *front) end(why session.Cause) {
	f.cause = f.cause.Then(why, !f.back.asked)
	f.step(onEnd)
	switch {
	case !f.back.there(), f.back.attached && why != session.CauseStdin:
		f.done = true
	case why == session.CauseStdin:
		// The relay passes the end of the stream on. A server that does not read may never see it.
		f.clock.closeBy = time.Now().Add(f.o.EOFGrace)
		f.expectEnd()
	case f.cause == session.CauseSignal:
		f.ask(f.bySignal)
	default:
		f.ask(unix.SIGTERM)
	}
}

func (f *front) step(ev event) {
	switch f.phase.step(ev) {
	case letFall:
		f.fall = ev.because()
		f.letFall()
	case forget:
		f.afterFall()
	case wake:
		f.wake()
	case resume:
		f.resume()
	case refuseWaiting:
		f.refuseWaiting()
	case end:
		f.relay.Finish()
	case carryOn:
	}
}

// letFall ends a backend while the session goes on. A host lives on, for others.
func (f *front) letFall() {
	if f.back.attached && f.fall != unfit {
		f.o.Finder.Sleep() // Before the end of what the host reads, which would be that of the session.
	}
	f.relay.EndServer()
	switch {
	case f.back.attached:
		f.letGo()
	case f.fall == unfit:
		f.ask(unix.SIGTERM)
	default:
		f.expectEnd()
	}
}

func (f *front) afterFall() {
	switch f.fall {
	case nap:
		f.sleep()
	case crash:
		f.reportCrash()
	case unfit:
		f.refuseWaiting()
	case replace:
		f.replaced()
	}
}

func (f *front) onRelay(events []relay.Event) {
	for _, e := range events {
		switch e.Kind {
		case relay.ClientWrote:
			f.onWaiting()
		case relay.ClientClosed:
			f.onClientClosed()
		case relay.Answered:
			if f.step(onAnswered); f.phase == awake {
				f.pauses.between = 0
			}
		case relay.Restored:
			f.step(onRestored)
		case relay.Unasked:
			f.step(onUnasked)
		case relay.Raw:
			f.onRaw()
		case relay.RestoreFailed:
			f.wakeFailed(e.Text)
		case relay.ServerClosed:
			f.onServerClosed()
		default:
			f.onRefused(e)
		}
	}
}

// closedPause is how long a session may go on once its server has closed the output: it ends what the server has left.
const closedPause = time.Second

// onRaw: the client does not speak in lines. What is said passes unread, so nobody could tell what a server is asked, or would be
// told again.
func (f *front) onRaw() {
	f.log.Info().Msg("the client does not speak in lines: its server is its own, and never sleeps")
	f.record.Sleepless, f.clock.lookAt = f.relay.Unrestorable(), time.Time{}
	if f.o.Finder != nil {
		f.goAlone(errors.New("its client does not speak in lines"))
	}
}

// lostPause is how long open calls wait for the exit code of a server that has closed its output. What it leaves may take long.
const lostPause = 500 * time.Millisecond

// onServerClosed: no answer can come any more. What the client says from now on is for the next server. Without a next one the
// session is over: a client without a front before the server would see the end of the stream.
func (f *front) onServerClosed() {
	if f.o.Finder != nil || f.back.pid == 0 || f.phase == over {
		return
	}
	if may, _ := f.mayRestart(); may && f.phase == awake && f.relay.Spoke() {
		f.step(onCrash)
		f.clock.lostAt = time.Now().Add(lostPause)
		return
	}
	f.back.escalateAt = proc.Earliest(f.back.escalateAt, time.Now().Add(closedPause))
}

func (f *front) onRefused(e relay.Event) {
	switch e.Kind {
	case relay.Changed:
		f.log.Error().Str("why", e.Text).Msg("server cannot take the place of the one before it")
		f.pauses.why = e.Text
		f.end(session.CauseChanged)
	case relay.TooLong:
		f.log.Error().Str("error", e.Text).Msg("message is too long")
		f.pauses.why = e.Text
		f.end(session.CauseTooLong)
	case relay.Dropped:
		f.log.Debug().Str("method", e.Text).Msg("dropped: the server could not be woken")
	}
}
