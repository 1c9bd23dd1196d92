package relay

import (
	"errors"

	"mcp-tether/internal/mcp"
)

// Restore makes a new server know what the last one knew: handshake, log level, subscriptions. The client's requests
// wait until the new server has answered as the last one did. If the server is one that asks for the client's roots,
// the requests also wait until it has them. The client's answers pass. Without a handshake to repeat, all messages pass
// at once.
func (r *Relay) Restore() []Event {
	r.mode = modeRestoring
	r.steps, r.settling, r.refusal = r.talk.Replay(), false, ""
	r.unproven = true
	r.replay()
	return r.events()
}

// replay sends what can be sent now. With nothing left, messages pass again.
func (r *Relay) replay() {
	for len(r.steps) > 0 && !r.steps[0].Roots && !r.steps[0].Settle {
		r.up.put(r.steps[0].Line)
		if r.steps[0].AwaitID != "" {
			break
		}
		r.steps = r.steps[1:]
	}
	if len(r.steps) > 0 {
		r.up.drain()
		return
	}
	if r.failsWithoutRoots() {
		return
	}
	r.mode = modePassing
	r.talk.Accepted()
	r.release()
	r.up.drain()
	if r.unproven {
		r.emit(Unasked, "")
		return
	}
	r.emit(Restored, "")
}

// answered takes the server's answer to the step that waits for it.
func (r *Relay) answered(m mcp.Message) {
	tell, err := r.steps[0].Check(m)
	switch {
	case errors.Is(err, mcp.ErrChanged):
		r.mode = modeEnding
		r.emit(Changed, err.Error())
		return
	case err != nil:
		r.fail(err.Error())
		return
	}
	r.down.put(tell)
	if more := r.steps[0].More; more != nil {
		// slices.Insert would bring two kilobytes for this type.
		r.steps = append(append(r.steps[:1:1], more()...), r.steps[1:]...)
	}
	r.next()
}

// next goes on to the next step.
func (r *Relay) next() {
	r.steps = r.steps[1:]
	if has, _ := r.talk.HasRoots(); !has && len(r.steps) == 0 {
		// The server has asked again meanwhile.
		r.steps = r.talk.AwaitRoots()
	}
	r.replay()
}

func (r *Relay) fail(why string) {
	r.mode = modeEnding
	r.emit(RestoreFailed, why)
}

// lookForRoots goes on once the new server has the client's roots.
func (r *Relay) lookForRoots() {
	if len(r.steps) == 0 {
		return
	}
	has, _ := r.talk.HasRoots()
	switch {
	case r.failsWithoutRoots():
	case r.steps[0].Roots && has:
		r.steps = r.steps[1:]
		r.replay()
	case r.steps[0].Settle && !r.settling:
		r.settling = true
		r.emit(Settling, "")
	}
}

// failsWithoutRoots fails if the client refuses a new server the roots. The refusal may come together with the last answer
// of the server.
func (r *Relay) failsWithoutRoots() bool {
	_, denied := r.talk.HasRoots()
	if denied {
		r.fail("the client refuses its roots, which it gave to the server before")
	}
	return denied
}

// Settled says that a server which has read the roots has had the time to make use of them. If the server has asked
// again, the relay waits for it again.
func (r *Relay) Settled() []Event {
	if r.settling && r.mode == modeRestoring {
		r.settling = false
		r.steps = r.steps[1:]
		if has, _ := r.talk.HasRoots(); !has {
			r.steps = r.talk.AwaitRoots()
		}
		r.replay()
	}
	return r.events()
}

// Lacks says what a new server that takes too long has not done.
func (r *Relay) Lacks() string {
	if len(r.steps) > 0 && r.steps[0].Roots {
		return "it did not ask for the client's roots as the server before it did, or has no answer"
	}
	return "it did not answer the handshake"
}

// Unrestorable says why no other server could take the place of this one, if it ended now; "" if one could.
func (r *Relay) Unrestorable() string { return r.talk.Unrestorable() }

// ClientEnded reports whether the client's stream has ended, and the server has been sent all of it. Only for a pipe or a
// socket does poll(2) tell of such an end.
func (r *Relay) ClientEnded() bool { return r.up.ended && len(r.up.pending) == 0 }

// Crashed says that the server has ended by itself. Once the client has everything that the server wrote, the open
// calls are answered with why. Disconnect follows.
func (r *Relay) Crashed(why string) { r.owed = why }

// answerForTheDead answers the calls of a server that has crashed.
func (r *Relay) answerForTheDead() {
	if r.owed == "" || !r.Drained() {
		return
	}
	why := r.owed
	r.owed = ""
	r.forgetServer()
	r.happened = append(r.happened, r.Refuse(why)...)
}
