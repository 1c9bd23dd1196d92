package supervise

import (
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// finish cleans up after the tree, writes the closing event and returns the exit code.
func (s *Session) finish() int {
	var r remains
	if s.tree != nil {
		r = s.tree.close()
	}
	s.endSweep()
	s.closeRecord(&r)
	s.removeFront()
	if s.page != nil && !r.leaked {
		s.page.Finish(s.code) // Whoever is killed from here on has ended the session.
	}
	for _, src := range s.polled.wait(0) {
		s.cause = s.cause.Unless(causeOf(src), false)
	}
	if r.Cause, r.Exit = string(s.cause), s.code; s.bySignal != 0 && s.cause == session.CauseSignal {
		r.Signal = unix.SignalName(s.bySignal)
	}
	s.logEnd(&r)
	s.tell(&r)
	s.continueAnchor()
	return s.code
}

// continueAnchor continues a stopped anchor, which only has to pass on the exit code. On a terminal the shell does
// that.
func (c *common) continueAnchor() {
	if c.above.anchor == 0 || c.above.terminal {
		return
	}
	if st, err := c.reader.Stat(c.above.anchor); err == nil && st.State == 'T' && os.Getppid() == c.above.anchor {
		_ = c.reader.Signal(st.ID, unix.SIGCONT)
	}
}

// logEnd writes the one closing event of a session.
func (s *Session) logEnd(r *remains) {
	ev := s.log.Info()
	if r.leaked {
		ev = s.log.Error()
	}
	if !s.log.Info().Enabled() && s.opts.Log.File == "" && proc.IsTerminal(2) {
		_, _ = display.Stderr().Write([]byte(r.words))
	}
	if ev == nil {
		return
	}
	if r.Signal != "" {
		ev = ev.Str("signal", r.Signal)
	}
	kept := make([]int, len(r.kept))
	for i, p := range r.kept {
		kept[i] = p.PID
	}
	left := zerolog.Arr()
	for _, v := range r.survivors {
		left.Dict(zerolog.Dict().Int("pid", v.PID).Str("comm", v.Comm).Int("uid", v.UID).Str("why", v.Why))
	}
	if len(r.Processes) > 0 {
		fates := zerolog.Arr()
		for _, f := range r.Processes {
			fates.Dict(zerolog.Dict().Int("pid", f.PID).Str("command", f.Command).Str("what", f.What))
		}
		ev = ev.Array("processes", fates)
	}
	if r.Containers > 0 {
		ev = ev.Int("containers", r.Containers)
	}
	if r.OOMKills > 0 {
		ev = ev.Uint64("oom_kills", r.OOMKills).Str("why", outOfMemory)
	}
	now := time.Now()
	if r.began.IsZero() {
		r.began = now
	}
	ev.Str("cause", r.Cause).Int("exit", r.Exit).Int("ended", r.Ended).Int("killed", r.Killed).Strs("names", r.Names).
		Array("survivors", left).Bool("leaked", r.leaked).Ints("kept", kept).Float64("uptime_ms", milliseconds(now.Sub(s.started))).
		Float64("teardown_ms", milliseconds(now.Sub(r.began))).Msg(s.closingWords())
}

// outOfMemory says what the kernel has done to the server.
const outOfMemory = "out of memory: the kernel has killed it"

// closingWords begin the closing event. Behind a front the session of the user goes on, or the front tells of its end.
func (s *Session) closingWords() string {
	if s.opts.Behind != "" {
		return "server and all that it started ended"
	}
	return "session ended"
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// tell writes the session into the history of its user. It comes last, when nothing is left to end and the anchor knows the
// exit code. A history that cannot be written is no trouble of the session.
func (s *Session) tell(r *remains) {
	if !s.opts.History {
		return
	}
	s.fillRecord(session.StateEnding)
	p := s.record.Past(r.Outcome)
	p.PeakBytes = proc.PeakOfChildren()
	if err := p.Append(); err != nil {
		s.log.Debug().Err(err).Msg("not in the history")
	}
}

// left says what could not be ended.
func (r *remains) left() (all []string) {
	for _, v := range r.survivors[:min(len(r.survivors), maxNames)] {
		all = append(all, fmt.Sprintf("pid %d (%s): %s", v.PID, v.Comm, v.Why))
	}
	if r.removed.Err != nil {
		all = append(all, r.removed.Err.Error())
	}
	if more := len(r.survivors) - maxNames; more > 0 || r.unseen {
		all = append(all, "further processes")
	}
	return all
}
