package front

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// ending is what is known of the end of the session.
type ending struct {
	// cause is why the session ends, session.NoCause while it does not; bySignal is the signal of session.CauseSignal.
	cause    session.Cause
	bySignal unix.Signal
	// closing says that the client has closed its end.
	closing bool
	// done says that there is nothing more to wait for, and left that the waiter goes on alone.
	done, left bool
	// hostReason is why a host has ended the session; "" if that needs no word.
	hostReason string
}

// finish passes on the last of the server's output, writes the closing event and returns the exit code.
func (f *front) finish() int {
	f.flush()
	code := f.exitCode()
	if f.o.Finder != nil {
		f.o.Finder.HangUp()
	}
	f.closeRecord()
	ev := f.log.Info()
	if f.cause == session.CauseSignal {
		ev = ev.Str("signal", unix.SignalName(f.bySignal))
	}
	ev.Str("cause", string(f.cause)).Int("exit", code).Int("sleeps", f.record.Sleeps).Int("wakes", f.record.Wakes).
		Int("restarts", f.record.Restarts).Float64("uptime_ms", milliseconds(time.Since(f.clock.started))).Msg("session ended")
	f.writeHistory(code)
	f.continueWaiter()
	return code
}

// continueWaiter continues a stopped waiter, which only has to pass on the exit code.
func (f *front) continueWaiter() {
	waiter, _ := proc.Spawned()
	if st, err := f.reader.Stat(waiter); err == nil && st.State == 'T' && os.Getppid() == waiter {
		_ = f.reader.Signal(st.ID, unix.SIGCONT)
	}
}

// exitCode is the backend's. Without one, and for a shared server, it tells of the signal that has ended the session.
func (f *front) exitCode() int {
	if (f.back.began.IsZero() || f.o.Finder != nil) && f.cause == session.CauseSignal {
		return 128 + int(f.bySignal)
	}
	switch {
	case f.o.Finder != nil && (f.cause == session.CauseTooLong || f.cause == session.CauseChanged):
		return waiting.ExitFailure
	case f.back.began.IsZero():
		return 0
	}
	return f.back.code
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// clientPatience is how long a client that does not read its last answers may hold up the end.
const clientPatience = time.Second

// flush passes on what the server has still written, and answers the requests that it left open with an error. The
// wait for a slow client is bounded.
func (f *front) flush() {
	answer := ""
	switch f.cause {
	case session.CauseStdout, session.CauseGateway: // Nobody reads.
		return
	case session.CauseServer:
		answer = f.lostAnswer()
	case session.CauseStdin:
		if f.relay.Unproven() {
			answer = "mcp-tether: the server could not be woken: " + f.whySilent()
		}
	case session.CauseChanged:
		answer = "mcp-tether: the server could not be woken: " + f.pauses.why
	case session.CauseTooLong:
		answer = "mcp-tether: " + f.pauses.why
	}
	if !f.relay.Flush(answer, f.cause == session.CauseTooLong, clientPatience) {
		f.log.Warn().Msg("the client did not read the last of the server's output")
	}
}
