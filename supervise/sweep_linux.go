package supervise

import (
	"time"
)

// sweepDelay is how long after the server's start to look for dead sessions: off its path.
const sweepDelay = time.Second

// sweep ends this user's dead sessions, beside the loop: that may take as long as a teardown.
func (s *Session) sweep() {
	s.sweepAt = time.Time{}
	if s.cause != noCause || !s.opts.HasDead() {
		return
	}
	log := s.log
	go func() {
		if err := s.opts.Sweep(); err != nil {
			log.Warn().Err(err).Msg("dead sessions not swept")
		}
	}()
}
