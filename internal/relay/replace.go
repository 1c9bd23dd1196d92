package relay

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/proc"
)

// EndServer closes the server's standard input. From now on the client's messages stay in its stream.
func (r *Relay) EndServer() {
	r.mode = modeEnding
	r.mux.ServerLeaves()
	r.server.Out.Close()
}

// Disconnect forgets a server that is gone. What it has written is passed on, the calls that it has not answered get an error
// that says why, and the client is notified that the server's requests need no answer.
func (r *Relay) Disconnect(why string) {
	r.takeRest()
	r.server.Close()
	r.mode = modeServerless
	r.deliver(r.mux.ServerGone(why))
	r.client.Flush()
}

// takeRest reads what a server has left in the pipe. Of a line that has not ended the client gets nothing but a message that lacks
// only its newline.
func (r *Relay) takeRest() {
	r.server.Drain(r.readServer)
	if r.server.Unfinished() == 0 {
		return
	}
	rest := r.server.TakeRest()
	if m := mcp.Parse(rest); m.Kind != mcp.Opaque && m.Kind != mcp.Unclear {
		r.fromServer(append(rest, '\n'))
	} else if r.stderr.guards && m.Kind == mcp.Opaque {
		r.stderr.stray(rest)
	}
}

// Restore makes a new server know what the last one knew. The client's requests wait until the new server has answered as the
// last one did, and has the client's roots if it is one that asks for them. The client's answers pass. Without a handshake to
// repeat, all messages pass at once.
func (r *Relay) Restore() []Event {
	r.mode, r.unproven = modeRestoring, true
	r.deliver(r.mux.ServerStarted())
	r.server.Flush()
	r.lookAtRestore()
	return r.events()
}

func (r *Relay) lookAtRestore() {
	why, changed := r.mux.Failed()
	switch {
	case changed:
		r.mode = modeEnding
		r.emit(Changed, why)
	case why != "":
		r.mode = modeEnding
		r.emit(RestoreFailed, why)
	case r.mux.Restored():
		r.mode = modePassing
		r.unproven = r.unproven && r.speech != speechRaw
		if r.unproven {
			r.emit(Unasked, "")
		} else {
			r.emit(Restored, "")
		}
		r.endStdin()
	}
}

// Pause is for how long a new server is given time before PauseOver is called.
func (r *Relay) Pause() time.Duration { return r.mux.Pause() }

// PauseOver says that this time is over.
func (r *Relay) PauseOver() []Event {
	if r.mode == modeRestoring {
		r.deliver(r.mux.PauseOver())
		r.server.Flush()
		r.lookAtRestore()
	}
	return r.events()
}

// Lacks says what a new server that takes too long has not done.
func (r *Relay) Lacks() string { return r.mux.Lacks() }

// Refuse is for a server that cannot be had: each request that waits for it gets an error, and what else waits is dropped.
func (r *Relay) Refuse(why string) []Event {
	outs, dropped := r.mux.RefuseHeld(why)
	for _, what := range dropped {
		r.emit(Dropped, what)
	}
	r.deliver(outs)
	r.client.Flush()
	return r.events()
}

// ForgetSaved says that no server could be had that is what the client was told, if it was told anything.
func (r *Relay) ForgetSaved() { r.mux.ForgetSaved() }

// Finish says that the session is ending. What passed still passes, and a message that is too long is reported no more. A
// server that is not ready gets nothing any more.
func (r *Relay) Finish() {
	r.final = true
	if r.mode != modePassing {
		r.mode = modeEnding
		r.mux.ServerLeaves()
	}
	r.endStdin()
}

// Flush passes on the server's last output, and then answers the open requests with an error, unless that is "". With unread a
// message was too long to be read to its end, so its id may not be known: one more error has id null. Flush waits for a client that
// does not read for so long, and reports whether the client has taken everything. A client that is gone gets nothing.
func (r *Relay) Flush(answer string, unread bool, patience time.Duration) bool {
	defer r.flushStderr()
	r.final = true
	if answer == "" && r.mode == modePassing || r.speech == speechRaw { // What the server has begun is the last that there is.
		r.server.Drain(r.readServer)
		if rest := r.server.TakeRest(); r.stderr.guards && r.speech != speechRaw && len(rest) > 0 && mcp.IsStray(rest) {
			r.stderr.stray(rest)
		} else {
			r.client.Put(rest)
		}
	} else {
		r.takeRest()
	}
	if answer != "" {
		r.deliver(r.mux.ServerGone(answer))
		_ = r.Refuse(answer)
	}
	if unread {
		r.client.Put(mcp.ErrorReply(mcp.IDNull, mcp.CodeInternal, answer))
	}
	for limit := time.Now().Add(patience); !r.client.Broken && r.client.Waiting() > 0; {
		fds := []unix.PollFd{r.client.PollOut()}
		n := proc.Poll(fds, max(time.Until(limit), 0))
		if n == 0 && !time.Now().Before(limit) || fds[0].Revents&unix.POLLERR != 0 {
			return false
		}
		if r.client.Flush() {
			limit = time.Now().Add(patience)
		}
	}
	return !r.client.Broken
}
