package front

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// A front without a server has nothing to do until the client says something. It leaves what the next front needs with the waiter,
// which has no runtime, and exits. With a shared server it stays: the next front would have to find out anew who may share. So it does
// where it watches files (--restart-on).

// leaveAfter is how long a front without a server waits for the client before it leaves.
const leaveAfter = 250 * time.Millisecond

// saved is what a front leaves to the next one.
type saved struct {
	Record  session.Record
	Started time.Time
	Relay   relay.State
}

// leaveIfIdle lets the front leave once nothing has happened for a while. Where something is pending, it stays until something else
// has happened.
func (f *front) leaveIfIdle(happened bool) {
	c, now := &f.clock, time.Now()
	switch {
	case f.phase != asleep || f.o.Finder != nil || len(f.o.RestartOn) > 0 || f.page.Pid.Anchor == 0:
		c.leaveAt, c.idle = time.Time{}, false
	case happened || !c.idle:
		c.leaveAt, c.idle = now.Add(leaveAfter), true
	case proc.IsDue(c.leaveAt, now):
		c.leaveAt = time.Time{}
		f.leave()
	}
}

// leave leaves the session to the waiter, unless something is pending.
func (f *front) leave() {
	s, ok := f.relay.State()
	c := &f.clock
	pending := proc.Earliest(c.retryAt, c.closeBy, c.attachAt, c.lostAt, f.back.escalateAt)
	if !ok || f.closing || f.back.there() || !pending.IsZero() || f.pauses != (pauses{}) || f.cause != session.NoCause {
		return
	}
	state, err := json.Marshal(saved{f.record, c.started, s})
	if err == nil {
		if f.lease != nil {
			f.page.FD.Lock = f.lease.FD()
		}
		end := f.prepareEnd()
		if err = f.page.Save(state, end); err != nil {
			_ = unix.Close(end.Directory)
		}
	}
	if err != nil {
		f.log.Debug().Err(err).Msg("the front stays")
		return
	}
	f.left = true
	f.page.KeepOnly(proc.OwnDescriptors()) // What the gateway has passed on is for the next server.
}

// saved reads what the front before has left; nil for the first one.
func (f *front) saved() (*saved, error) {
	b, err := f.page.Saved()
	if b == nil || err != nil {
		return nil, err
	}
	s := new(saved)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("read what the front before has left: %w", err)
	}
	f.record, f.clock.started = s.Record, s.Started
	return s, nil
}

// resumeSession goes on with a session whose server sleeps.
func (f *front) resumeSession(s *saved, happening waiting.Event) error {
	f.phase = asleep
	f.watch.resume(f.page, f.record)
	if err := f.listen(); err != nil {
		return err
	}
	if dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR")); err == nil && f.page.FD.Lock >= 0 {
		f.lease = dir.Adopt(f.record.ID, f.page.FD.Lock)
	}
	f.relay = relay.Resume(relay.ReadEnd(0), relay.WriteEnd(1), mcp.DefaultMax, s.Relay)
	if err := f.prepareRelay(); err != nil {
		return err
	}
	f.page.Awake()
	if happening.Kind == waiting.BySignal {
		f.onSignal(happening.Signal)
	}
	return nil
}
