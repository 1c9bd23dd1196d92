package display

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// Options say where and what to log.
type Options struct {
	Level zerolog.Level
	// JSON selects one JSON object a line instead of text.
	JSON bool
	// File is appended to; empty means standard error.
	File string
}

// Open makes the log of a session: the id and the name are in each event. The error says which file could not be opened;
// nothing is logged then.
func Open(o Options, id, name string) (zerolog.Logger, error) {
	out, err := openSink(o.File)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("open log file %s: %w", o.File, err)
	}
	return logTo(out, o, id, name), nil
}

func logTo(out *Sink, o Options, id, name string) zerolog.Logger {
	var w io.Writer = out
	if !o.JSON {
		w = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.DateTime}
	}
	log := zerolog.New(w).Level(o.Level).With().Timestamp().Str("session", id).Logger()
	if name != "" {
		log = log.With().Str("name", name).Logger()
	}
	out.json = o.JSON
	return log
}

// IsEvent reports whether a line that is not empty looks like an event of a session's log, as text or JSON. A line of a server may
// look the same.
func IsEvent(line []byte) bool {
	word := `","session":"`
	if line[0] == '2' { // of the year
		word = " session="
	}
	return bytes.Contains(line, []byte(word))
}
