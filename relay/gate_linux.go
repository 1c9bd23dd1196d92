package relay

import (
	"bytes"

	"mcp-tether/mcp"
)

// byLine reports whether each line of the server must be judged before it passes.
func (r *Relay) byLine() bool {
	return r.mode == ending || r.mode == serverless || r.mode == restoring
}

// wholeLines returns the whole lines of the server's output that may pass. An unfinished line waits for its end.
func (r *Relay) wholeLines(b []byte) []byte {
	if r.skipping {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return nil
		}
		r.skipping, b = false, b[i+1:]
	}
	var out []byte
	r.line = append(r.line, b...)
	for r.byLine() {
		i := bytes.IndexByte(r.line, '\n')
		if i < 0 {
			break
		}
		line := r.line[:i+1]
		r.line = r.line[i+1:]
		if r.passes(line) {
			r.note(line)
			out = append(out, line...)
		}
	}
	if r.byLine() {
		if int64(len(r.line)) > r.max {
			r.line, r.skipping = nil, true
			r.emit(RestoreFailed, "its answer is longer than --max-message")
		}
		return out
	}
	// The server is awake again, or the session is ending: lines are not judged any more.
	r.note(r.line)
	out, r.line = append(out, r.line...), nil
	return out
}

// passes reports whether one line may reach the client.
func (r *Relay) passes(line []byte) bool {
	one := mcp.Scanner{Max: r.max, Keep: len(line)}
	pass := true
	_ = one.Feed(line, func(m mcp.Message) {
		switch {
		case !m.Line:
		case r.mode != restoring && m.Kind == mcp.Request:
			// The answer would reach the next server, which uses the same ids again.
			pass = false
			r.emit(Withheld, m.Method)
		case r.mode == restoring && m.Kind == mcp.Response && len(r.steps) > 0 && m.ID == r.steps[0].AwaitID:
			pass = false
			r.answered(m)
		}
	})
	return pass
}
