package front

import (
	"fmt"
	"time"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/share"
	"mcp-tether/internal/waiting"
)

// A shared server is the backend of several fronts. Its host has the other ends of the pipes, in the place of a child of
// ours. The connection to it tells of its end.

// hostKilled is the answer to the calls that a killed host leaves open.
const hostKilled = "the process that shares this server was killed: whether the call has had an effect is not known"

// attach asks a host for a place, which onHost gets. While there is no host, attachAt says when to try again.
func (f *front) attach() error {
	f.clock.attachAt = time.Time{}
	f.o.Finder.Meet(f.relay.First())
	again, err := f.o.Finder.Find()
	if err != nil {
		return err
	}
	if again {
		f.clock.attachAt = time.Now().Add(share.RetryPause)
		return nil
	}
	var child proc.Child
	done, err := f.relay.Connect(&child)
	if err != nil {
		f.o.Finder.HangUp()
		return fmt.Errorf("make the server's pipes: %w", err)
	}
	defer done()
	if err := f.o.Finder.Hello(child.Stdin, child.Stdout); err != nil {
		f.o.Finder.HangUp()
		return err
	}
	f.back = backend{began: time.Now(), attached: true}
	f.clock.wakeBy = f.back.began.Add(wakeTimeout)
	return nil
}

// goAlone gives a session that has had no answer a server of its own, because it cannot share one.
func (f *front) goAlone(why error) {
	f.log.Warn().Err(why).Msg("this session has a server of its own")
	f.o.Finder = nil
	if err := f.relay.Stderr(f.o.Guard, f.o.KeepStderr); err != nil {
		f.log.Warn().Err(err).Msg("the server's standard error is not kept")
	}
	f.openRecord()
}

func (f *front) hostFD() int {
	if f.o.Finder == nil {
		return -1
	}
	return f.o.Finder.Conn()
}

func (f *front) onHost() {
	verdict, ok := f.o.Finder.Receive()
	if !ok {
		return
	}
	if verdict.Next == share.Here {
		f.closeRecord()
		f.back.hasPlace = true
		f.restore()
		return
	}
	f.back.attached = false
	// Host after host that takes nobody is no accident: then it counts as a failure.
	untaken := verdict.Next == share.Lost && !f.back.hasPlace && f.pauses.between < f.patience().last
	switch {
	case verdict.Next == share.Full:
		f.log.Info().Msg("session goes on at another shared server")
		f.tryNextHost(time.Now())
	case untaken:
		f.tryNextHost(f.patience().backOff(&f.pauses.between, time.Now()))
	case verdict.Next == share.Lost:
		f.back.hostFate = hostKilled
		f.onBackendEnd(waiting.ExitFailure)
	case verdict.Next == share.Anew:
		f.back.hostFate = verdict.Why
		f.onBackendEnd(verdict.Code)
	default:
		f.hostReason, f.back.hostFate = verdict.Why, "the shared server has ended"
		f.cause = f.cause.Then(session.CauseServer, true)
		f.back.code = verdict.Code
		f.step(onEnd)
		f.done = true
	}
}

// tryNextHost goes on at another host. The last one has taken nothing.
func (f *front) tryNextHost(at time.Time) {
	f.relay.Disconnect("")
	f.clock.wakeBy, f.clock.attachAt = time.Time{}, at // The next host may take long to come.
}
