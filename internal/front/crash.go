package front

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// mayRestart reports whether a server that has ended by itself is to be started again. why says what stands in the way of
// another server, if that is the reason.
func (f *front) mayRestart() (may bool, why string) {
	if f.o.Finder == nil && !f.o.RestartOnCrash || f.cause != session.NoCause {
		// A server may end when its client has: there is nothing to start another one for.
		return false, ""
	}
	why = f.relay.Unrestorable()
	return why == "", why
}

// unstartable reports whether the server cannot be started at all. Its session has said why. A first server that ends
// before it has said anything was started as any other, unless its client was told something in its place.
func (f *front) unstartable() bool {
	b := &f.back
	plain := f.o.Lazy && f.o.Finder == nil && !f.o.RestartOnCrash && !f.relay.Told()
	return b.pid == 0 && !f.relay.Spoke() && (plain || b.code >= waiting.ExitFailure && b.code <= 127) && b.hostFate != hostKilled
}

// reportCrash forgets a server that has ended by itself: its calls are answered with an error. The next message starts
// another one, after a pause if this one has not lived long.
func (f *front) reportCrash() {
	p, now := &f.pauses, time.Now()
	p.restarts = true
	if patience := f.patience(); now.Sub(f.back.began) < patience.calm {
		f.clock.retryAt = patience.backOff(&p.between, now)
	} else {
		p.between = 0
	}
	f.log.Error().Int("exit", f.back.code).Dur("next_try_in", p.between).Msg("server ended by itself")
	p.refusal = f.lostAnswer()
	f.forget(p.refusal)
	f.listenToClient()
}

// lostAnswer is the answer to the calls that were open when the server ended.
func (f *front) lostAnswer() string {
	if f.o.Finder != nil {
		return "mcp-tether: " + f.back.hostFate
	}
	more := ""
	if f.back.code == 128+int(unix.SIGKILL) && f.o.History {
		more = "; mcp-tether history " + f.record.ID + " says whether its memory ran out"
	}
	return fmt.Sprintf("mcp-tether: the server ended (exit code %d) before it answered%s%s", f.back.code, f.relay.LastWords().Said(), more)
}
