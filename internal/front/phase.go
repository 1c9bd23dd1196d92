package front

// phase says whether there is a backend, and what it is good for. The table is the whole policy of replacing one. What
// ends a session is decided elsewhere and wins in every phase.
type phase uint8

const (
	same    phase = iota // in the table: no change
	awake                // the backend serves
	falling              // it is being ended, and the session goes on: fall says why
	asleep               // there is none
	waking               // one was started, and the handshake is not finished
	trying               // as awake, but there was no handshake, and the new server has not answered anything yet
	over                 // the session is ending for good
	phases
)

// fall is why a backend is being ended while the session goes on.
type fall uint8

const (
	nap     fall = iota // it is idle
	crash               // its server has ended by itself, and is to be started again
	unfit               // its server cannot take the place of the last one
	replace             // another server is wanted in the place of its own
)

// event is what can happen in a phase.
type event uint8

const (
	onIdle      event = iota // no byte has moved for the time of --hibernate, and nothing is pending
	onMessage                // the client has sent something
	onCrash                  // the server has ended by itself, and is to be started again (--on-crash)
	onRestart                // another server is wanted in the place of this one
	onGone                   // the backend has ended
	onRestored               // the new server has answered the handshake as the first one did
	onUnasked                // there is no handshake to repeat
	onAnswered               // the new server has answered something
	onUnstarted              // no backend could be started
	onFailed                 // the new server cannot take the place of the last one
	onEnd                    // whatever ends a session
	events
)

// action is what to do then.
type action uint8

const (
	carryOn       action = iota
	letFall              // end the backend, keep the client's streams; the client's messages wait
	forget               // forget the backend, and what was asked of it, as fall says
	wake                 // start a backend and replay the handshake
	resume               // messages pass again
	refuseWaiting        // forget the backend, and answer the messages that wait for it
	end                  // for good
)

type move struct {
	to phase
	do action
}

// phaseTable is the policy. What is not in it changes nothing. A message that comes while the backend is being ended waits
// in the client's stream, and is seen again once the backend is gone.
var phaseTable = [phases][events]move{
	awake:   {onIdle: {falling, letFall}, onCrash: {falling, letFall}, onRestart: {falling, letFall}, onGone: {over, end}, onEnd: {over, end}},
	falling: {onGone: {asleep, forget}, onEnd: {over, end}},
	asleep:  {onMessage: {waking, wake}, onEnd: {over, end}},
	waking: {
		onRestored: {awake, resume}, onUnasked: {trying, resume}, onFailed: {falling, letFall},
		onGone: {asleep, refuseWaiting}, onUnstarted: {asleep, refuseWaiting}, onEnd: {over, end},
	},
	trying: {
		onAnswered: {awake, carryOn}, onIdle: {falling, letFall}, onFailed: {falling, letFall}, onRestart: {falling, letFall},
		onGone: {asleep, refuseWaiting}, onEnd: {over, end},
	},
}

func (p *phase) step(ev event) action {
	mv := phaseTable[*p][ev]
	if mv.to != same {
		*p = mv.to
	}
	return mv.do
}

func (ev event) because() fall {
	switch ev {
	case onCrash:
		return crash
	case onFailed:
		return unfit
	case onRestart:
		return replace
	}
	return nap
}
