package supervise

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// predecessorPoll is how often to look for the predecessor where the kernel has no pidfd to wait on.
const predecessorPoll = 10 * time.Millisecond

// awaitPredecessor waits until no ending session of the same key and gateway, or shared server, is left, and none behind the same
// front. A new server must not race the teardown of the last one for its port or files. A session that is
// not ending is not waited for. The wait is bounded by what a teardown may take. After that the session starts all the same, with a
// warning. If our own end comes first, the supervisor ends the wait.
func (s *Session) awaitPredecessor() {
	if s.opts.Key == "" && !s.opts.Unended || s.lease == nil {
		return
	}
	began, longest := time.Now(), time.Duration(0)
	for {
		owner, r := s.predecessor()
		if r == nil {
			return
		}
		longest = max(longest, s.opts.longestPredecessor(r))
		limit := began.Add(longest)
		if !time.Now().Before(limit) {
			s.log.Warn().Str("key", s.opts.Key).Msg("an ending session of this key is still there: started beside it")
			return
		}
		awaitEnd(owner, limit)
	}
}

// longestPredecessor is how long the end of a session with our options is waited for.
func (o *Options) longestPredecessor(r *session.Record) time.Duration {
	end := o.Grace.EOF + o.Grace.Term + o.Grace.Kill + time.Second
	if o.Containers != ContainersOff && r.EngineUsed {
		end += o.longestRemoval()
	}
	return end
}

// awaitEnd waits for the end of a process until the limit, or for a moment where it has no pidfd.
func awaitEnd(id proc.ID, limit time.Time) {
	fd, err := proc.OpenPidfd(id.PID)
	if err != nil {
		proc.Sleep(predecessorPoll)
		return
	}
	defer unix.Close(fd)
	proc.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, max(time.Until(limit), 0))
}

// predecessor finds an ending session of our key and gateway; nil if there is none. owner is the process that ends
// it: its supervisor, or its anchor where the supervisor was killed.
func (c *common) predecessor() (owner proc.ID, of *session.Record) {
	dir := c.lease.Dir()
	all, err := dir.ReadAll()
	if err != nil {
		return proc.ID{}, nil
	}
	for i := range all {
		s, r := &all[i], all[i].Record
		if !s.Held || s.Unread != nil || r.ID == c.id || r.ID == c.opts.Behind || r.UID != os.Getuid() || !c.follows(r) || c.goesOn(r, dir) {
			continue
		}
		// A dead one may stay as a zombie that a tracer holds. Its pidfd is ready, so there is nothing to wait for.
		if st, err := c.reader.Stat(r.Supervisor.PID); err == nil && st.ID == r.Supervisor && !st.Dead() {
			return r.Supervisor, &r
		}
		return r.Anchor, &r
	}
	return proc.ID{}, nil
}

// goesOn reports whether a session is behind a front that lives: the front's own record tells whether that is ending.
func (c *common) goesOn(r session.Record, dir *session.Directory) bool {
	if r.Behind == "" || r.Behind == c.opts.Behind {
		return false
	}
	alive, err := dir.Held(r.Behind)
	return err == nil && alive
}

// follows reports whether our session has to wait for the end of another one. With --exclusive, an earlier session of the same
// shared server has lost its host, so it ends in any case. So does an earlier one behind the same front, which has lost its anchor.
func (c *common) follows(r session.Record) bool {
	if c.opts.Behind != "" && r.Behind == c.opts.Behind {
		return true
	}
	if c.opts.Key == "" || r.Key != c.opts.Key {
		return false
	}
	return c.opts.Share != "" && r.Share == c.opts.Share || r.Gateway == c.record.Gateway && r.State == session.StateEnding
}
