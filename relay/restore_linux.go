package relay

import "mcp-tether/mcp"

// Restore tells a new server what the last one knew: handshake, log level, subscriptions. The client's messages stay in
// their stream until the new server has answered as the last one did. Without a handshake to repeat they pass at once.
func (r *Relay) Restore() []Event {
	r.mode, r.up.held = restoring, true
	r.steps, r.refusal = r.talk.Replay(), ""
	r.unproven = true
	r.replay()
	return r.events()
}

// replay sends what can be sent now. With nothing left, messages pass again.
func (r *Relay) replay() {
	for len(r.steps) > 0 {
		r.up.put(r.steps[0].Line)
		if r.steps[0].AwaitID != "" {
			break
		}
		r.stepDone()
	}
	r.up.drain()
	if len(r.steps) > 0 {
		return
	}
	r.mode, r.up.held = passing, false
	if r.unproven {
		r.emit(Unasked, "")
		return
	}
	r.emit(Restored, "")
}

// stepDone goes on to the next step.
func (r *Relay) stepDone() {
	r.down.put(r.steps[0].Tell)
	r.steps = r.steps[1:]
}

// answered takes the server's answer to the step that waits for it.
func (r *Relay) answered(m mcp.Message) {
	if check := r.steps[0].Check; check != nil {
		if err := check(m); err != nil {
			r.mode = ending
			r.emit(RestoreFailed, err.Error())
			return
		}
	}
	r.stepDone()
	r.replay()
}
