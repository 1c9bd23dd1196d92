package mux

import (
	"time"

	"mcp-tether/internal/mcp"
)

// roots is what is known of the servers' use of the client's roots: the directories that bound what it may touch
// (client/roots). A server asks for them and judges later calls by the answer, so a new server must have them before the first
// call. The protocol does not say when a server asks.
type roots struct {
	// asked says that this server has asked, and working that it was given work that it might judge by the roots.
	asked, working bool
	// Use is when servers ask. Changed is the client's news that the roots have changed: servers ask again then.
	RootsState
}

// rootsUse says when servers ask for the roots.
type rootsUse uint8

const (
	rootsUnknown rootsUse = iota
	// rootsAtStart: they ask at their start.
	rootsAtStart
	// rootsAmidWork: one has asked when it had work. It may have asked at its start, or for that.
	rootsAmidWork
	// rootsForWork: it was for that.
	rootsForWork
)

// rootsAsked takes a server's question.
func (m *Mux) rootsAsked() {
	r := &m.roots
	r.asked = true
	switch {
	case r.Use == rootsAtStart:
	case !r.working || r.Changed != "":
		if r.Use = rootsAtStart; m.handshake.initialize != "" {
			m.save(m.handshake.initialize, Published{Roots: true})
		}
	case r.Use == rootsUnknown:
		r.Use = rootsAmidWork
	}
}

// awaitsRoots reports whether a new server may ask at its start, which is after the handshake. That of many clients gets none.
func (m *Mux) awaitsRoots() bool {
	r := &m.roots
	return m.Alone && m.handshake.phase == phaseDone && (r.Use == rootsAtStart || r.Use == rootsAmidWork || r.asked)
}

// hasRoots reports whether the server has asked for the roots, and has an answer to all that it has asked.
func (m *Mux) hasRoots() bool {
	for _, a := range m.asks {
		if a.method == mcp.MethodRoots {
			return false
		}
	}
	return m.roots.asked
}

const (
	// maybeWait is how long a server may take to ask that may not ask at all.
	maybeWait = 2 * time.Second
	// restTime is how long a server may make use of the roots. Servers look at each directory first, in threads of their own, and
	// answer pings meanwhile: with nothing but a ping, server-filesystem judged a call without the roots once in 60 wakes.
	restTime = 200 * time.Millisecond
)

// Pause is for how long a new server is given time; 0 if it need not be. PauseOver follows.
func (m *Mux) Pause() time.Duration {
	switch s := &m.server; {
	case s.stage == resting:
		return restTime
	case s.stage == awaitingRoots && m.roots.Use != rootsAtStart && !m.roots.asked:
		return maybeWait
	}
	return 0
}

// PauseOver says that this time is over.
func (m *Mux) PauseOver() []Out {
	m.begin()
	switch {
	case m.Pause() == restTime:
		m.server.stage = lastPing
		m.askAgain(mcp.MethodPing, "", "{}")
	case m.Pause() > 0:
		m.roots.Use = rootsForWork
		m.server.stage = served
		m.sendHeld()
	}
	return m.out
}
