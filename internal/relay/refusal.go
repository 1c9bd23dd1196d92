package relay

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/proc"
)

// Refuse is for a server that cannot be woken: each request that waits for it gets an error. So do the requests that
// were passed on already. A message that is still on its way is answered when its end comes.
func (r *Relay) Refuse(why string) []Event {
	r.refusal = why
	for _, id := range r.talk.Pending(true) {
		// Passed on already: a server without a handshake gets messages before it has proved itself.
		r.down.put(mcp.ErrorReply(id, why))
		r.talk.FromServer(mcp.Message{ID: id, Kind: mcp.Response, IsError: true}, time.Now())
	}
	r.refuseWaiting()
	r.down.drain()
	return r.events()
}

// refuseWaiting answers each waiting message with the refusal.
func (r *Relay) refuseWaiting() {
	all := mcp.Scanner{Max: r.max}
	r.checkLength(all.Feed(r.waiting.take(&r.judgesClient), r.refuse))
	r.checkLength(all.Feed([]byte("\n"), r.refuse)) // The last one may lack it.
	r.up.held = false
}

// refuse answers one message that no server gets.
func (r *Relay) refuse(m mcp.Message) {
	if m.Kind != mcp.Request {
		if m.Method == mcp.MethodCancelled {
			// It may end a subscription, which the next server is then not sent.
			r.observeMessage(m)
		}
		r.emit(Dropped, m.Method)
		return
	}
	r.down.put(mcp.ErrorReply(m.ID, r.refusal))
}

// Unanswered says what becomes of the requests without an answer when a session ends.
type Unanswered struct {
	// Answer is the error for each request without an answer; "" where they get none.
	Answer string
	// Unread says that a message was too long to be read to its end, so its id may not be known. The client then gets an
	// error with id null as well.
	Unread bool
}

// Flush passes on the server's last output, and then answers the open requests. It waits for a slow client until the
// limit, and reports whether the client has taken everything. A client that is gone gets nothing.
func (r *Relay) Flush(open Unanswered, limit time.Time) bool {
	defer r.flushStderr()
	for !r.down.broken {
		if r.Drained() {
			r.down.put(r.lastLine(open.Answer != "" || r.owed != ""))
			r.answerForTheDead()
			r.answerOpen(open)
			open = Unanswered{}
			if len(r.down.pending) == 0 {
				break
			}
		}
		fd := []unix.PollFd{r.down.interest(), {Fd: int32(r.down.to.fd)}}
		n := proc.Poll(fd, max(time.Until(limit), 0))
		if n == 0 && !time.Now().Before(limit) || fd[1].Revents&unix.POLLERR != 0 {
			return false
		}
		r.down.move(fd[0].Revents)
	}
	return true
}

// lastLine returns what the client gets of a line of the server that has not ended. Where lines are judged, or more follows, that
// is a message that lacks only its newline. Half of one may belong to a message that does not pass.
func (r *Relay) lastLine(more bool) []byte {
	if r.mode == modePassing && !more || r.fromServer.Partial() || len(r.nextOfServer.begun) == 0 {
		return r.unjudged()
	}
	line, _ := r.nextOfServer.next([]byte("\n"))
	r.nextOfServer.skip()
	line = r.guard(line, true)
	known := false
	r.each(&r.judgesServer, line, func(m mcp.Message) { known = m.Kind != mcp.Opaque && m.Kind != mcp.Unclear })
	if !known {
		return nil
	}
	return r.serverLine(line)
}

// answerOpen answers every open request with an error: a request is never sent twice.
func (r *Relay) answerOpen(open Unanswered) {
	if open.Answer == "" {
		return
	}
	ids := r.talk.Pending(false)
	if open.Unread {
		ids = append(ids, mcp.IDNull)
	}
	if r.fromServer.Partial() && len(ids)+r.waiting.left > 0 {
		r.down.put([]byte("\n"))
	}
	for _, id := range ids {
		r.down.put(mcp.ErrorReply(id, open.Answer))
	}
	r.refusal = open.Answer
	r.refuseWaiting()
}
