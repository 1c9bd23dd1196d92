package supervise

// A session with --hibernate or --on-crash=restart is in one of these phases. The table is the whole policy of
// hibernation. What ends a session is decided elsewhere and wins in every phase.

// phase says whether a server is awake, asleep or in between.
type phase uint8

const (
	same     phase = iota // in the table: no change
	awake                 // the server serves
	falling               // its tree is being ended, the session goes on
	crashing              // it has ended by itself and is to be started again; the rest of its tree is being ended
	asleep                // there is no tree
	waking                // a tree was started, the handshake is not finished
	trying                // as awake, but there was no handshake, and the woken server has not written anything yet
	failing               // the woken server cannot take the place of the last one; its tree is being ended
	over                  // the session is ending for good
	phases
)

// phaseEvent is what can happen in a phase.
type phaseEvent uint8

const (
	onIdle      phaseEvent = iota // no byte has moved for the time of --hibernate, and nothing is pending
	onMessage                     // the client has sent something
	onCrash                       // the server has ended by itself, and is to be started again (--on-crash)
	onTreeGone                    // no process of the server is left
	onRestored                    // the woken server has answered the handshake as the first one did
	onUnasked                     // there is no handshake to repeat
	onAnswered                    // the woken server has written something
	onUnstarted                   // no server could be started
	onFailed                      // the woken server cannot take the place of the last one, or has ended
	onEnd                         // whatever ends a session
	phaseEvents
)

// phaseAction is what to do then.
type phaseAction uint8

const (
	carryOn       phaseAction = iota
	putToSleep                // end the tree, keep the client's streams
	hold                      // the client's messages wait
	sleep                     // forget the tree
	reportCrash               // forget the tree, and answer the calls that it had
	wake                      // start the server and replay the handshake
	resume                    // messages pass again
	abandon                   // end the half-started tree
	refuseWaiting             // forget the tree, and answer the messages that wait for it
	end                       // for good
)

type phaseMove struct {
	to phase
	do phaseAction
}

// phaseTable is the policy. What is not in it changes nothing. A message that comes while the tree is being ended waits in
// the client's stream, and is seen again once the tree is gone.
var phaseTable = [phases][phaseEvents]phaseMove{
	awake:    {onIdle: {falling, putToSleep}, onCrash: {crashing, hold}, onTreeGone: {over, end}, onEnd: {over, end}},
	falling:  {onTreeGone: {asleep, sleep}, onEnd: {over, end}},
	crashing: {onTreeGone: {asleep, reportCrash}, onEnd: {over, end}},
	asleep:   {onMessage: {waking, wake}, onEnd: {over, end}},
	waking: {
		onRestored: {awake, resume}, onUnasked: {trying, resume}, onFailed: {failing, abandon},
		onTreeGone: {asleep, refuseWaiting}, onUnstarted: {asleep, refuseWaiting}, onEnd: {over, end},
	},
	trying: {
		onAnswered: {awake, carryOn}, onIdle: {falling, putToSleep}, onFailed: {failing, abandon},
		onTreeGone: {asleep, refuseWaiting}, onEnd: {over, end},
	},
	failing: {onTreeGone: {asleep, refuseWaiting}, onEnd: {over, end}},
}

// step takes an event.
func (p *phase) step(ev phaseEvent) phaseAction {
	mv := phaseTable[*p][ev]
	if mv.to != same {
		*p = mv.to
	}
	return mv.do
}
