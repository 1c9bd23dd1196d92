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

// judgeServer passes on those lines of the server's output that may pass, as long as lines must be judged, and returns what
// follows.
func (r *Relay) judgeServer(b []byte) []byte {
	for r.filtersServer() || r.nextOfServer.skipping {
		line, rest := r.nextOfServer.next(b)
		if line == nil {
			if int64(len(r.nextOfServer.begun)) > r.max {
				r.tooLongToJudge()
			}
			return nil
		}
		b = rest
		r.down.put(r.serverLine(line))
	}
	return b
}

// heldLine bounds the part of an unfinished line that is held back, in bytes.
const heldLine = bulkBuffer

// wholeLines holds back the beginning of a line that has not ended: its end may never come, and some clients give up the session
// at half a message. Of a longer line the beginning passes.
func (r *Relay) wholeLines(b []byte) []byte {
	l := &r.nextOfServer
	end := bytes.LastIndexByte(b, '\n') + 1
	rest := len(b) - end
	if end == 0 {
		rest += len(l.begun)
	}
	if int64(rest) > min(heldLine, r.max) || end == 0 && (r.fromServer.Partial() || r.errs.straying) {
		end = len(b)
	}
	out := b[:end]
	if len(l.begun) > 0 && end > 0 {
		out = append(l.take(), out...)
	}
	l.begun = append(l.begun, b[end:]...)
	out = r.guard(out, false)
	r.observeServer(out)
	return out
}

// unjudged lets the begun part of a line pass, because the line need not be judged any more.
func (r *Relay) unjudged() []byte {
	b := r.guard(r.nextOfServer.take(), true)
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
	r.emit(RestoreFailed, "its answer is too long")
}

// serverLine returns the part of one line that reaches the client.
func (r *Relay) serverLine(line []byte) []byte {
	if line = r.guard(line, true); r.fromServer.Partial() { // Its beginning has passed.
		r.observeServer(line)
		return line
	}
	leaves := r.mode == modeEnding || r.mode == modeServerless
	return r.filter(&r.judgesServer, line, func(m mcp.Message) ([]byte, bool) {
		var completes, ends bool
		if len(r.steps) > 0 {
			completes, ends = r.steps[0].Completes(m)
		}
		r.prove(completes || m.Kind == mcp.Response)
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
func (r *Relay) filter(s *mcp.Scanner, line []byte, pass func(mcp.Message) (out []byte, ok bool)) []byte {
	var parts [][]byte
	changed, batch := false, false
	r.each(s, line, func(m mcp.Message) {
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
