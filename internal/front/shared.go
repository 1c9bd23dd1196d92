package front

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/share"

	"mcp-tether/internal/session"
)

// A shared server is the backend of several fronts. Its host has the other ends of the pipes, in the place of a child of
// ours. The connection to it tells of its end.

// hostKilled is the answer to the calls that a killed host leaves open.
const hostKilled = "the process that shares this server was killed: whether the call has had an effect is not known"

// attach connects to the host, and reports false while there is none: attachAt says when to try again.
func (f *front) attach() (bool, error) {
	f.clock.attachAt = time.Time{}
	f.o.Finder.Meet(f.relay.First())
	again, err := f.o.Finder.Find()
	if err != nil {
		return false, err
	}
	if again {
		f.clock.attachAt = time.Now().Add(share.RetryPause)
		return false, nil
	}
	var child proc.Child
	done, err := f.relay.Connect(&child)
	if err != nil {
		f.o.Finder.HangUp()
		return false, fmt.Errorf("make the server's pipes: %w", err)
	}
	defer done()
	f.back = backend{began: time.Now(), attached: true}
	// What the host has not read can then be read here.
	if f.back.unread, err = unix.FcntlInt(uintptr(child.Stdin), unix.F_DUPFD_CLOEXEC, 3); err == nil {
		err = f.o.Finder.Hello(child.Stdin, child.Stdout)
	}
	if err != nil {
		f.o.Finder.HangUp()
		f.back.leave()
		return false, err
	}
	f.closeRecord()
	return true, nil
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

// hostFD is the connection to the host, -1 without one.
func (f *front) hostFD() int {
	if f.o.Finder == nil {
		return -1
	}
	return f.o.Finder.Conn()
}

// onHost acts on what the host says.
func (f *front) onHost() {
	news, ok := f.o.Finder.Hear()
	if !ok {
		return
	}
	unread := f.back.leave()
	// Host after host that reads nothing is no accident: then it counts as a failure.
	untaken := news.Lost && len(unread) > 0 && int64(len(unread)) == f.relay.Sent() && f.pauses.between < f.patience().last
	switch {
	case news.Elsewhere:
		f.log.Info().Str("why", news.Why).Msg("session goes on at another shared server")
		f.moveOn(unread, time.Now())
	case untaken:
		f.moveOn(unread, f.patience().backOff(&f.pauses.between, time.Now()))
	case news.Lost:
		f.back.word = hostKilled
		f.onBackendEnd(exitFailure)
	case news.Ended:
		f.back.word = news.Why
		f.onBackendEnd(news.Code)
	default:
		f.hostWord, f.back.word = news.Why, "the shared server has ended"
		f.cause = f.cause.Unless(session.CauseServer, true)
		f.back.code = news.Code
		f.step(onEnd)
		f.done = true
	}
}

// moveOn goes on at another host. unread is what the last one has not acted upon. In a wake that is what we have said ourselves,
// and it is said anew.
func (f *front) moveOn(unread []byte, at time.Time) {
	if f.phase == waking {
		f.relay.Disconnect("")
		f.clock.wakeBy, f.clock.restAt = time.Time{}, time.Time{} // The next host may take long to come.
	} else {
		f.relay.Park(unread)
	}
	f.clock.attachAt = at
}

// seekHost looks for the next host, while the conversation goes on. What the last one has written comes first.
func (f *front) seekHost() {
	if !f.relay.Drained() {
		f.clock.attachAt = time.Now().Add(share.RetryPause)
		return
	}
	ready, err := f.startBackend()
	switch {
	case err != nil:
		f.hostWord, f.back.word, f.back.code = err.Error(), err.Error(), exitFailure
		f.end(session.CauseServer)
	case ready:
		f.onMet(false) // Before the server there gets anything of this client.
		if f.relay.Unpark(); f.closing {
			f.end(session.CauseStdin)
		}
	}
}

// onAttachTime looks again for a host: for a conversation that goes on, or for one that is to be restored.
func (f *front) onAttachTime() {
	if f.phase == waking {
		f.begin()
		return
	}
	f.seekHost()
}

// hasRead reports whether there is a backend, and a host has read all that it was sent.
func (b *backend) hasRead() bool {
	if !b.attached {
		return b.there()
	}
	n, err := unix.IoctlGetInt(b.unread, unix.TIOCINQ)
	return err == nil && n == 0
}

// leave gives up the pipes to a host, and returns what it has not read.
func (b *backend) leave() (unread []byte) {
	if b.unread > 0 {
		_ = unix.SetNonblock(b.unread, true)
		for buf := make([]byte, 64<<10); ; {
			n, err := unix.Read(b.unread, buf)
			if n <= 0 || err != nil {
				break
			}
			unread = append(unread, buf[:n]...)
		}
		_ = unix.Close(b.unread)
	}
	b.attached, b.unread = false, 0
	return unread
}
