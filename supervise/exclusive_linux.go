package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcp-tether/session"
	"mcp-tether/teardown"
)

// predecessorPause is how often to look whether the predecessor is gone.
const predecessorPause = 10 * time.Millisecond

// awaitPredecessor waits until no ending session of the same key and gateway is left, so that a fresh server does not
// race the teardown of the last one for its port or files. A living one is not waited for. The wait is bounded by what
// a teardown may take; the session then starts all the same, with a warning. The error says that our own end came first.
func (s *supervisor) awaitPredecessor() error {
	if s.opts.Key == "" || s.lease == nil {
		return nil
	}
	limit := time.Now().Add(s.opts.EOFGrace + s.opts.TermGrace + s.opts.KillTimeout + time.Second)
	for s.predecessor() {
		if time.Now().After(limit) {
			s.log.Warn().Str("key", s.opts.Key).Msg("an ending session of this key is still there: started beside it")
			return nil
		}
		for _, src := range s.watch.wait(predecessorPause) {
			if src == signals {
				s.onSignals()
			} else {
				s.end(causeOf(src))
			}
		}
		if s.machine.State != teardown.Running {
			return fmt.Errorf("ended (%s) while waiting for the last session of key %q: nothing was started", s.cause, s.opts.Key)
		}
	}
	return nil
}

// predecessor reports whether an ending session of our key and gateway is there.
func (s *supervisor) predecessor() bool {
	dir := filepath.Dir(s.lease.Record())
	ids, err := session.IDs(dir)
	if err != nil {
		return false
	}
	for _, id := range ids {
		r, err := session.Read(dir, id)
		if err != nil || id == s.hand.ID || r.Key != s.opts.Key || r.Gateway != s.record.Gateway || r.State != session.StateEnding || r.Cause == causeIdle {
			continue
		}
		if held, err := session.Held(dir, id); err == nil && held && r.UID == os.Getuid() {
			return true
		}
	}
	return false
}
