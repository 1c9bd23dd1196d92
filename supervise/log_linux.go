package supervise

import (
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// openLog makes the logger. The error says which file could not be opened.
func (s *Session) openLog(o LogOptions) error {
	out, err := openSink(o.File)
	s.sink = out
	if err != nil {
		s.log = zerolog.Nop()
		return fmt.Errorf("open log file %s: %w", o.File, err)
	}
	var w io.Writer = out
	if !o.JSON {
		w = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.DateTime}
	}
	s.log = zerolog.New(w).Level(o.Level).With().Timestamp().Str("session", s.hand.ID).Logger()
	if s.opts.Name != "" {
		s.log = s.log.With().Str("name", s.opts.Name).Logger()
	}
	return nil
}
