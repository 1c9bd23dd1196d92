package relay

import (
	"bytes"

	"mcp-tether/mcp"
)

// byLine reports whether the server is one of which not every line may pass.
func (r *Relay) byLine() bool {
	return r.mode == ending || r.mode == serverless || r.mode == restoring
}

// wholeLines gives of the server's output the whole lines that may pass. The unfinished line waits for its end.
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
			r.find(RestoreFailed, "its answer is longer than --max-message")
		}
		return out
	}
	// The server is awake again, or the session is ending: lines are not judged any more.
	r.note(r.line)
	out, r.line = append(out, r.line...), nil
	return out
}

// passes decides about one line.
func (r *Relay) passes(line []byte) bool {
	one := mcp.Scanner{Max: r.max, Keep: len(line)}
	pass := true
	_ = one.Feed(line, func(m mcp.Message) {
		switch {
		case !m.Line:
		case r.mode != restoring && m.Kind == mcp.Request:
			// Its answer would reach another server, which gives out the same ids again.
			pass = false
			r.find(Withheld, m.Method)
		case r.mode == restoring && m.Kind == mcp.Response && len(r.steps) > 0 && m.ID == r.steps[0].AwaitID:
			pass = false
			r.answered(m)
		}
	})
	return pass
}
