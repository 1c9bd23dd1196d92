package relay

import (
	"bytes"
	"fmt"

	"mcp-tether/internal/mcp"
)

// queues reports whether the client's messages wait for a server that is not ready for them.
func (r *Relay) queues() bool { return r.mode == modeServerless || r.mode == modeRestoring }

// clientLines passes on those lines of the client that reach the server, as long as lines must be judged, and returns what
// follows. An unfinished line waits for its end.
func (r *Relay) clientLines(b []byte) []byte {
	for r.queues() || len(r.nextOfClient.begun) > 0 || r.talk.Mixed() {
		line, rest := r.nextOfClient.next(b)
		if line == nil {
			break
		}
		b = rest
		r.up.put(r.clientLine(line))
	}
	switch {
	case r.queues() || r.talk.Mixed():
		r.boundQueue()
		return nil
	case len(r.nextOfClient.begun) > 0:
		b = r.nextOfClient.take()
	}
	r.observeClient(b)
	return b
}

// boundQueue stops reading when more than max bytes wait. It reports an unfinished message that is longer than max.
func (r *Relay) boundQueue() {
	if int64(len(r.nextOfClient.begun)) > r.max {
		r.checkLength(fmt.Errorf("%w: more than %d bytes", mcp.ErrTooLong, r.max))
	}
	r.up.held = int64(len(r.waiting.lines)) > r.max
}

// clientLine returns the part of one line that reaches the server now.
func (r *Relay) clientLine(line []byte) []byte {
	if r.fromClient.Partial() { // Its beginning has passed.
		r.observeClient(line)
		return line
	}
	if r.queues() && !r.onlyAnswers(line) {
		r.queue(line)
		return nil
	}
	return r.filter(&r.judgesClient, line, func(m mcp.Message) ([]byte, bool) {
		if m.Kind == mcp.Response {
			open := r.talk.Answers(m)
			var ok bool
			if m, ok = r.talk.ToServer(m); !ok || r.queues() && !open {
				return nil, false
			}
		}
		r.observeMessage(m)
		return m.Raw, true
	})
}

// onlyAnswers reports whether a line has answers and nothing else.
func (r *Relay) onlyAnswers(line []byte) bool {
	answers, others := 0, 0
	r.each(&r.judgesClient, line, func(m mcp.Message) {
		if m.Kind == mcp.Response {
			answers++
		} else {
			others++
		}
	})
	return answers > 0 && others == 0
}

// each calls emit for each message of one line.
func (r *Relay) each(s *mcp.Scanner, line []byte, emit func(mcp.Message)) {
	if line = bytes.TrimSuffix(line, []byte("\n")); int64(len(line)) > r.max {
		r.checkLength(fmt.Errorf("%w: %d bytes, and %d are allowed", mcp.ErrTooLong, len(line), r.max))
		return
	}
	s.Line(line, emit)
}

// queue has a line wait for the server, if it is for a server at all. A ping is answered at once, and a call that is cancelled
// while it waits is forgotten. A message that could have no effect starts no server.
func (r *Relay) queue(line []byte) {
	if r.tell(line) {
		return
	}
	need, id := r.mode == modeRestoring, ""
	r.each(&r.judgesClient, line, func(m mcp.Message) {
		switch {
		case m.Line && r.talk.IsPing(m):
			r.down.put(mcp.PingReply(m.ID))
			line = nil
		case m.Line && m.Method == mcp.MethodCancelled && r.waiting.cancel(mcp.CancelledID(m)):
			line = nil
		case !r.talk.IsStray(m):
			need, id = true, callID(m)
		case r.mode == modeServerless:
			// It may end a subscription, which the next server is then not sent.
			r.observeMessage(m)
		}
	})
	if need && len(line) > 0 {
		r.waiting.add(line, id)
	}
	r.down.drain()
}

// release gives the server what has waited for it.
func (r *Relay) release() {
	b := append(r.waiting.take(&r.judgesClient), r.nextOfClient.take()...)
	r.up.held = false
	if len(b) > 0 {
		r.up.drain() // Otherwise all of it would be copied behind what is still to be written.
		r.up.put(r.tapClient(b))
	}
}

// answerRest reads to the end of a message whose beginning went to a server that is gone, and returns what comes after it.
func (r *Relay) answerRest(b []byte) []byte {
	part, rest, ended := bytes.Cut(b, []byte("\n"))
	if ended {
		part = b[:len(part)+1]
	}
	r.checkLength(r.tail.Feed(part, r.refuse))
	r.down.drain()
	if ended {
		r.tail = nil
	}
	return rest
}
