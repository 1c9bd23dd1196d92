package supervise

// A session with --hibernate is in one of these states. The table is the whole policy of sleeping and waking; what ends
// a session is decided elsewhere and wins over it in every state.

// doze is how far asleep a server is.
type doze uint8

const (
	awake   doze = iota
	falling      // its tree is being ended, the session goes on
	asleep       // no tree
	waking       // started, the handshake is not through
	over         // the session is ending for good
	dozes
)

func (d doze) String() string {
	return [dozes]string{"awake", "falling asleep", "asleep", "waking", "over"}[d]
}

// dozeEvent is what can happen to it.
type dozeEvent uint8

const (
	idle     dozeEvent = iota // nothing has moved for as long as was asked, and nothing is pending
	message                   // the client has sent something
	treeGone                  // no process of the server is left
	restored                  // the woken server has answered the handshake as the first one did
	failed                    // the woken server cannot be had
	mustEnd                   // whatever ends a session
	dozeEvents
)

// dozeAction is what to do.
type dozeAction uint8

const (
	carryOn   dozeAction = iota
	letSleep             // end the tree, keep the client's streams
	lieDown              // forget what belonged to the tree
	start                // start the server and replay the handshake
	resume               // pass messages again
	giveUp               // answer who waits, and end the half-started tree
	apologise            // answer who waits; there is no tree
	end                  // for good
)

type dozeMove struct {
	to doze
	do dozeAction
}

// dozeTable: a message while the tree is being ended waits in the client's stream, and is seen again once it is gone.
var dozeTable = [dozes][dozeEvents]dozeMove{
	awake: {
		idle: {falling, letSleep}, message: {awake, carryOn}, treeGone: {over, end}, restored: {awake, carryOn},
		failed: {awake, carryOn}, mustEnd: {over, end},
	},
	falling: {
		idle: {falling, carryOn}, message: {falling, carryOn}, treeGone: {asleep, lieDown}, restored: {falling, carryOn},
		failed: {falling, carryOn}, mustEnd: {over, end},
	},
	asleep: {
		idle: {asleep, carryOn}, message: {waking, start}, treeGone: {asleep, carryOn}, restored: {asleep, carryOn},
		failed: {asleep, carryOn}, mustEnd: {over, end},
	},
	waking: {
		idle: {waking, carryOn}, message: {waking, carryOn}, treeGone: {asleep, apologise}, restored: {awake, resume},
		failed: {falling, giveUp}, mustEnd: {over, end},
	},
	over: {
		idle: {over, carryOn}, message: {over, carryOn}, treeGone: {over, carryOn}, restored: {over, carryOn},
		failed: {over, carryOn}, mustEnd: {over, carryOn},
	},
}

// step takes an event.
func (d *doze) step(ev dozeEvent) dozeAction {
	mv := dozeTable[*d][ev]
	*d = mv.to
	return mv.do
}
