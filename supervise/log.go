package supervise

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// openLog makes the logger. The error says which file could not be opened.
func (c *common) openLog(o LogOptions) error {
	out, err := openSink(o.File)
	c.sink = out
	if err != nil {
		c.log = zerolog.Nop()
		return fmt.Errorf("open log file %s: %w", o.File, err)
	}
	var w io.Writer = out
	if !o.JSON {
		w = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.DateTime}
	}
	c.log = zerolog.New(w).Level(o.Level).With().Timestamp().Str("session", c.hand.ID).Logger()
	if c.opts.Name != "" {
		c.log = c.log.With().Str("name", c.opts.Name).Logger()
	}
	if o.JSON {
		out.lost = lostJSON(c.log)
	}
	return nil
}

// lostJSON makes the line about dropped events for a log of which each line is an object. The log's level does not matter.
func lostJSON(log zerolog.Logger) func(events int) []byte {
	return func(events int) []byte {
		var line bytes.Buffer
		own := log.Output(&line).Level(zerolog.WarnLevel)
		own.Warn().Int("events", events).Msg(dropReason)
		return line.Bytes()
	}
}
