package waiting

import "golang.org/x/sys/unix"

// Page is what the processes of a session share. It is mapped before the first fork, and nobody else can reach it: an
// exec unmaps it.
type Page struct {
	Pid Pids
	FD  Descriptors
	inherited
	prepared
	served
	ending
	behind
	closing
	// found are processes that are ended without a runtime. It is the supervisor's, and the anchor's once that is dead.
	found [maxFound]process
}

// Pids are those of the session's processes, in our namespace, and of the one that has started the anchor; 0 is none.
type Pids struct{ Anchor, Supervisor, Starter, Parent int }

// Descriptors are the supervisor's, or waiter's; -1 is none.
type Descriptors struct {
	// Pidfds. That of a gateway is of one behind a launcher.
	Parent, Gateway, Anchor int
	// Signals can be read when there is something for Queued, and Lock is the locked record's.
	Signals, Lock int
	// Leaf is the leaf's directory, and Kill its cgroup.kill, open for writing.
	Leaf, Kill int
	// Listener is the socket for clients of the container engine.
	Listener int
	// Kept is the file in which a front that falls asleep leaves what the next one needs (memfd_create(2)), and History the
	// directory of the history.
	Kept, History int
	// ownBelow bounds those that a starter or front, which has ended, had opened for itself.
	ownBelow int
}

// inherited is what the anchor found when it was started.
type inherited struct {
	// Terminal says that a person started the session in the foreground of a terminal, and leads that the anchor leads a process group.
	Terminal, leads, childrenIgnored bool
	// Ignored are those of SIGHUP, SIGINT and SIGQUIT that were ignored. Sets of signals have bit n-1 for signal n.
	mask, Ignored uint64
	// closed are the standard streams that were not open.
	closed [3]bool
}

// prepared is what the starter has found out.
type prepared struct {
	// ready is set last, by the starter: the server may be executed.
	ready bool
	// foreign are the children that the anchor had before the session, and manyForeign says that there are more.
	foreign     [16]int
	manyForeign bool
	// longest is how long the end of the session may take, in nanoseconds.
	longest int
	// words is where the server's command begins in the command line of the anchor. mustMove says that the server is not to
	// start outside of its leaf.
	words    int
	mustMove bool
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

// served is the server, and what has become of it.
type served struct {
	// spawned is set by the supervisor (futex(2)).
	spawned uint32
	// server is the server's pid, group its process group, and errno why it could not be executed. unmoved is why it is not in its leaf.
	server, group, errno, unmoved int
	// status is the server's wait status once reaped is true.
	reaped bool
	status int
	// noSubreaper is why the supervisor could not become a child subreaper: 0 or -errno.
	noSubreaper int
}

// ending is how far the end of the session is.
type ending struct {
	// orphaned says that the parent is gone, where its pidfd could not be had.
	orphaned bool
	// asked is when the session was asked to end, in nanoseconds of CLOCK_MONOTONIC; 0 while it goes on.
	asked int
	// jumping says that the supervisor is about to start its runtime, and listening that this hears signals. heard says that it has
	// taken one before that ends. unheard is the last such signal that a front was told of.
	jumping, listening, heard bool
	unheard                   unix.Signal
	// fate is the wait status of the supervisor, or of who has taken over from it; takeovers counts these.
	fate, takeovers int
	// done says that the session is over, and code is what to exit with.
	done bool
	code int
}

// behind is what a waiter must know of the front.
type behind struct {
	// hasFront says that the supervisor is a front, which has its runtime from the first moment on.
	hasFront bool
	// Frontless says that the session needs no front after all: the waiter executes it without one when this process has exited.
	Frontless bool
	// saved says that the file of FD.Kept has what a next front needs, and that there may be one: none has begun to use it.
	saved bool
}

// closing is what the waiter needs to end a session that sleeps.
type closing struct {
	// quiet says that no log tells of the end. began is when the session began, in nanoseconds of CLOCK_MONOTONIC.
	quiet bool
	began int
	// draft is where in the file of FD.Kept the line for the history is, which is also where the state of the front ends; drafted is
	// its size.
	draft, drafted int
}

// process is one with its parent.
type process struct{ pid, parent int }

// maxFound bounds how many processes are ended without a runtime in one round.
const maxFound = 4096
