package share

import "time"

// settling is how the host looks at a new server that answers the handshake and takes the roots of its client: whether it
// comes to rest in between, and whether it takes too long. Servers look their roots up after they have read them, in
// threads of their own, and answer pings meanwhile.
type settling struct {
	// lookAt is when to look again; zero means never. looks counts the looks.
	lookAt time.Time
	looks  int
	// waited counts those since the server was to rest, and rested the last of them that found it at rest.
	waited, rested int
}

const (
	// lookPause is the time between two looks.
	lookPause = 20 * time.Millisecond
	// enoughRest is how many looks in a row must find the server at rest: 100 ms.
	enoughRest = 6
	// mostWaits bounds the looks at a server that always works: 5 s.
	mostWaits = 250
)

// followSettling looks at a new server for which calls wait. It is ended if the calls can never go on.
func (h *host) followSettling() {
	s := &h.settling
	on, rests, refused := h.mux.Settling()
	if !on || h.ending {
		*s = settling{}
		return
	}
	now := time.Now()
	if now.Before(s.lookAt) {
		return
	}
	s.lookAt = now.Add(lookPause)
	s.looks++
	switch {
	case h.server.out < 0: // It ends.
	case refused:
		h.endServer("the client refuses its roots, which it gave to the server before")
	case s.looks > int(h.o.WakeTimeout/lookPause):
		lacks := "take the client's roots"
		if h.mux.Greeting() {
			lacks = "answer the handshake"
		}
		h.endServer("the new server did not " + lacks + " in time (--wake-timeout)")
	case rests:
		h.lookForRest()
	}
}

// lookForRest lets the server go on once it has rested for long enough.
func (h *host) lookForRest() {
	s := &h.settling
	s.waited++
	s.rested++
	if !h.resting() {
		s.rested = 0
	}
	if s.rested >= enoughRest || s.waited >= mostWaits {
		s.waited, s.rested = 0, 0
		h.deliver(h.mux.Rested())
	}
}

// resting reports whether no thread of the server's session is seen to work. A process that cannot be read does not
// count: then only the time does.
func (h *host) resting() bool {
	members, _ := h.reader.Descendants(h.server.pid)
	for _, m := range members {
		if resting, err := h.reader.Resting(m.PID); err == nil && !resting {
			return false
		}
	}
	return true
}
