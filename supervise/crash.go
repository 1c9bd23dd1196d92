package supervise

import (
	"fmt"
	"time"
)

// restartCalm is how long a server must have lived for its successor to be started without a pause.
const restartCalm = time.Minute

// lookForCrash is called when the server has ended by itself. If it is to be started again, the session does not end with
// the tree.
func (s *Session) lookForCrash() {
	if s.hib == nil || s.opts.OnCrash != OnCrashRestart || s.hib.phase != awake {
		return
	}
	if s.hib.relay.ClientEnded() {
		// The server has seen the end of its standard input, so it may end: there is nothing to start another one for.
		return
	}
	if s.opts.Share != "" && s.hib.relay.Unfinished() {
		// The host answers what is open and starts the next server. It would take an error of the relay for the server's.
		return
	}
	if why := s.hib.relay.Unrestorable(); why != "" {
		s.log.Warn().Str("why", why).Msg("the server cannot be restarted")
		return
	}
	s.changePhase(onCrash)
}

// reportCrash forgets a server that has ended by itself: its calls are answered with an error. The next message starts
// another one, after a pause if this one has not lived long.
func (s *Session) reportCrash() {
	h, now := s.hib, time.Now()
	h.restarts = true
	if now.Sub(h.began) < restartCalm {
		h.retryAt = backOff(&h.crashPause, now)
	} else {
		h.crashPause = 0
	}
	code, answer := s.tree.code, s.tree.lastWord()
	h.relay.Crashed(answer)
	s.forgetTree()
	s.log.Error().Int("exit", code).Dur("next_try_in", h.crashPause).Msg("server ended by itself")
	s.listenToClient()
}

// lastWord is the answer to the calls that were open when the server ended.
func (t *tree) lastWord() string {
	return fmt.Sprintf("mcp-tether: the server ended (exit code %d) before it answered", t.code)
}
