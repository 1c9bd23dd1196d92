package waiting

import (
	"golang.org/x/sys/unix"
)

// Page is what the processes of a session share. It is mapped before the first fork, and nobody else can reach it: an
// exec unmaps it. Pids are of our namespace; 0 is none. Descriptors are the supervisor's; -1 is none. What says yes or no is 1 or 0.
type Page struct {
	processes
	inherited
	held
	prepared
	served
	ending
	behind
	closing

	// What does not fit into a frame; each process has its own.
	anchorRoom, supervisorRoom room
	clone                      cloneArgs
}

// processes are those of the session, and the one that has started the anchor.
type processes struct {
	anchor, supervisor, starter, parent int64
	// orphaned says that the parent is gone, where its pidfd could not be had.
	orphaned int64
	// noSubreaper is not 0 where the supervisor could not become a child subreaper: -errno.
	noSubreaper int64
	// fate is the wait status of the supervisor, or of who has taken over from it; takeovers counts these.
	fate, takeovers int64
}

// served is the server, and what has become of it.
type served struct {
	// spawned is set by the supervisor (futex(2)).
	spawned uint32
	// server is the server's pid, group its process group, and errno why it could not be executed. unmoved is why it is not in its leaf.
	server, group, errno, unmoved int64
	// status is the server's wait status once reaped is 1.
	reaped, status int64
}

// ending is how far the end of the session is.
type ending struct {
	// asked is when the session was asked to end, in nanoseconds of CLOCK_MONOTONIC; 0 while it goes on.
	asked int64
	// jumping says that the supervisor is about to start its runtime, and listening that this hears signals. heard is the signal
	// that ends which it has taken before, unheard the last such signal that a front was told of.
	jumping, listening, heard, unheard int64
	// undelivered is a signal that ends which the anchor holds back until the supervisor's runtime hears signals.
	undelivered uintptr
	// done says that the session is over, and code is what to exit with.
	done, code int64
}

// behind is what a waiter must know of the front.
type behind struct {
	// hasFront says that the supervisor is a front, which has its runtime from the first moment on.
	hasFront int64
	// frontless says that the session needs no front after all. saved says that kept has what a next front needs, and that there may be
	// one: none has begun to use it.
	frontless, saved int64
}

// inherited is what the anchor found when it was started. Sets of signals have bit n-1 for signal n.
type inherited struct {
	// leads says that the anchor leads a process group.
	terminal, leads, childrenIgnored int64
	mask, ignored                    uint64
	// closed has bit n for a standard stream n that was not open.
	closed uint64
}

// held are the supervisor's descriptors.
type held struct {
	parentFD, gatewayFD, anchorFD, signalFD int64
	lockFD, leafFD, killFD, listenFD        int64
	// keptFD is the file in which a front that falls asleep leaves what the next one needs (memfd_create(2)), and historyFD the
	// directory of the history.
	keptFD, historyFD int64
	// ownBelow bounds the descriptors that a starter or front, which has ended, had opened for itself.
	ownBelow int64
}

// closing is what the waiter needs to end a session that sleeps.
type closing struct {
	// quiet says that no log tells of the end. began is when the session began, in nanoseconds of CLOCK_MONOTONIC.
	quiet, began int64
	// draft is where in kept the line for the history is, which is also where the state of the front ends; drafted is its size.
	draft, drafted int64
}

// prepared is what the starter has found out.
type prepared struct {
	// ready is set last, by the starter: the server may be executed.
	ready uint32
	// foreign are the children that the anchor had before the session, and manyForeign says that there are more.
	foreign     [16]int64
	manyForeign int64
	// longest is how long the end of the session may take, in nanoseconds.
	longest int64
	// words is where the server's command begins in the command line of the anchor. mustMove says that the server is not to
	// start outside of its leaf.
	words, mustMove int64
	// recorded is where the record is (SetRecord): its offset, and its size in the low 32 bits.
	recorded uint64
	path     [4096]byte
	// drop are beginnings of variables that the server does not get, and add those that it gets. Each text ends with a zero
	// byte, and an empty one is the last.
	drop   [512]byte
	add    [16 << 10]byte
	record [192 << 10]byte
	// files are the paths of the leaf, if there is one, and of the record's files; a waiter's are the record and the history's name.
	files [2048]byte
}

// room is the memory of a loop.
type room struct {
	polled [polledFDs]pollFD
	signal unix.SignalfdSiginfo
	info   [128]byte
	left   unix.Timespec
	status uint64
	text   [4096]byte
	path   [64]byte
	found  [maxFound]pair
}

// pair is a process with its parent.
type pair struct{ pid, parent int64 }

// maxFound bounds how many processes are ended without a runtime in one round.
const maxFound = 4096

// pollFD is struct pollfd (poll(2)).
type pollFD struct {
	fd              int32
	events, revents int16
}

// cloneArgs is struct clone_args, version 2 (clone(2)).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// Where the descriptors are in what a supervisor polls. The anchor has signals and parent, and its supervisor in place of itself.
const (
	onSignal = iota
	onParent
	onGateway
	onAnchor
	onStdin
	onStdout
	onClient
	polledFDs
)
