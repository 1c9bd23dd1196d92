package relay

import (
	"bytes"
	"fmt"
	"time"

	"mcp-tether/internal/mcp"
)

// filtersServer reports whether each line of the server must be judged before it passes.
func (r *Relay) filtersServer() bool {
	return r.mode == modeEnding || r.queues() || r.mode == modePassing && r.talk.Mixed()
}

// serverLines returns the whole lines of the server's output that may pass. An unfinished line waits for its end.
func (r *Relay) serverLines(b []byte) (out []byte) {
	for r.filtersServer() || r.nextOfServer.skipping || len(r.nextOfServer.begun) > 0 {
		line, rest := r.nextOfServer.next(b)
		if line == nil {
			if int64(len(r.nextOfServer.begun)) > r.max {
				r.tooLongToJudge()
			}
			if !r.filtersServer() {
				return join(out, r.unjudged())
			}
			return out
		}
		b = rest
		out = join(out, r.serverLine(line))
	}
	// The server is awake again: lines are not judged any more.
	r.observeServer(b)
	return join(out, b)
}

// unjudged lets the begun part of a line pass, because the line need not be judged any more.
func (r *Relay) unjudged() []byte {
	b := r.nextOfServer.take()
	r.observeServer(b)
	return b
}

// tooLongToJudge drops a line of the server. Its second half would be no message.
func (r *Relay) tooLongToJudge() {
	r.nextOfServer.skip()
	if r.mode == modePassing {
		r.checkLength(fmt.Errorf("%w: more than %d bytes", mcp.ErrTooLong, r.max))
		return
	}
	r.emit(RestoreFailed, "its answer is longer than --max-message")
}

// join appends, and copies only where there is something to append to.
func join(out, more []byte) []byte {
	if len(out) == 0 {
		return more
	}
	return append(out[:len(out):len(out)], more...)
}

// serverLine returns the part of one line that reaches the client.
func (r *Relay) serverLine(line []byte) []byte {
	if r.fromServer.Partial() { // Its beginning has passed.
		r.observeServer(line)
		return line
	}
	leaves := r.mode == modeEnding || r.mode == modeServerless
	return r.filter(line, func(m mcp.Message) ([]byte, bool) {
		var completes, ends bool
		if len(r.steps) > 0 {
			completes, ends = r.steps[0].Completes(m)
		}
		switch {
		case leaves && m.Kind == mcp.Request:
			// The answer would reach the next server.
			r.emit(Withheld, m.Method)
			return nil, false
		case leaves && !r.final && r.talk.EndsSubscription(m):
			// The next server gets the subscription again.
			return nil, false
		case completes && !ends:
			// The client knows nothing of this. In a server that is given up, it comes too late.
			if !leaves {
				r.answered(m)
			}
			return nil, false
		case ends && !leaves:
			defer r.next()
		}
		shown := r.talk.ToClient(m)
		now := time.Now()
		r.use(r.talk.FromServer(m, now), now)
		return shown, shown != nil || m.Raw == nil
	})
}

// filter removes from a line the messages that do not pass, and replaces those that pass in another form. A line that
// passes whole stays as it is.
func (r *Relay) filter(line []byte, pass func(mcp.Message) (out []byte, ok bool)) []byte {
	var parts [][]byte
	changed, batch := false, false
	r.each(line, func(m mcp.Message) {
		batch = !m.Line
		out, ok := pass(m)
		changed = changed || !ok || len(out) != len(m.Raw) || len(out) > 0 && &out[0] != &m.Raw[0]
		if ok && len(out) > 0 {
			parts = append(parts, out)
		}
	})
	switch {
	case !changed:
		return line
	case len(parts) == 0:
		return nil
	case batch:
		return append(append([]byte("["), bytes.Join(parts, []byte(","))...), "]\n"...)
	}
	return append(parts[0], '\n')
}
