// Package waiting is the part of a session that waits, without a Go runtime.
//
// A session does nothing for hours, and then ends a tree in milliseconds. A Go runtime that waits for that takes a
// megabyte and five threads. So the linked binary enters at atExec (the flag -E in the Makefile), before the runtime.
// There a process is one thread with a few touched pages. It may fork, execute and wait, and nothing else. When there is
// work, it jumps to the runtime's own entry and is a Go program from then on.
//
//	gateway ── anchor ── supervisor ── server ── everything it starts
//	           waits     waits    └─ starter, for some milliseconds
//
// The anchor is what the gateway has started. It maps a Page that all processes of the session share, forks the
// supervisor, passes signals on and exits with the supervisor's code. The supervisor forks the starter, which starts its
// runtime, finds the program, makes record and leaf, and writes into the page what the server's start needs. The starter
// shares the supervisor's table of open files (CLONE_FILES, clone(2)): what it has opened for the session stays open
// when it exits. From the page the supervisor forks and executes the server. No runtime has ever run there, so the
// server has what the gateway gave: ignored signals, closed streams, limits, environment.
//
// Where the server may be replaced (--hibernate, --lazy, --on-crash, --share), what the gateway has started is a waiter:
//
//	gateway ── waiter ── front ── anchor ── supervisor ── server      a session of its own, behind the front
//	asleep     waiter
//
// The waiter is to the front what an anchor is to a supervisor. The two share their table of open files: the client's
// streams and the lock of the record are the waiter's while there is no front. A front that has nothing to do leaves what
// the next one needs in a file in memory (memfd_create(2)), and exits.
//
// What each waits for, and what follows:
//
//	supervisor   a signal that ends; parent, gateway or anchor gone;      its runtime starts, and ends the session
//	             stdin closed; nobody reads stdout; the server has ended
//	             a client of the container engine                         its runtime starts, and serves it
//	             the starter says ready                                   it executes the server
//	             the starter has failed                                   it exits with the starter's code
//	             any other signal                                         it goes to the server
//	             a child was stopped (the starter)                        it is continued
//	anchor       the supervisor has ended, and has said that it is done   it exits with the same code
//	             the supervisor has ended without that                    it forks a process with a runtime, which ends the session
//	             the supervisor was stopped                               it is continued
//	             parent gone, a signal, or the supervisor has begun       the supervisor has until Page.Longest; then SIGKILL
//	             any other signal                                         it goes to the supervisor
//	waiter       the front has fallen asleep                              it waits alone
//	             then a byte of the client                                it forks the next front
//	             a signal that ends, parent or gateway gone, the end      it removes the record, writes the line for the history, and
//	             of the client's streams                                  exits; with a log that tells of the end it forks a front
//	             the front has ended otherwise                            it exits with the same code
//	             the front needs no front after all                       it executes the program as a session without one
//	             else                                                     as an anchor
//
// All signals are blocked from the first system call on, and read from a signalfd(2): none is lost, and no handler is
// needed. Only SIGHUP, SIGINT and SIGQUIT stay as they are where they were ignored, so that the kernel drops them. On a
// terminal SIGTSTP, SIGTTIN and SIGTTOU keep their action, which stops the whole job. A Go runtime unblocks the signals
// that end, and dies of one that it does not catch yet. So they are ignored before the jump, and the anchor holds them back
// until the supervisor's runtime hears them. The anchor itself starts none: it is the last that all orphans fall to.
//
// A runtime that cannot start its threads aborts. So a process that is to jump first forks a few times. While that fails
// (pids.max, RLIMIT_NPROC), it ends the tree here: the leaf by its open control file, and all below it, stopped before they
// are killed. If there is no room then either, it removes leaf and record and exits. A waiter has nothing below it: it ends its
// session alone, and a client that has written waits for room.
//
// The code is Go that runs without a runtime, on the kernel's stack. Its g is zeros, so that every check of the stack's end passes
// (entry_linux_*.s). Whatever needs a scheduler or the heap would crash:
//   - Nothing may escape to the heap: no closure that does, no append beyond the capacity, no interface made of a number, no map. A test
//     reads what the compiler says of that.
//   - System calls are raw (call): those of package unix tell the scheduler.
//   - No defer, goroutine, channel or timer. An index out of range ends the process.
//
// What you may touch: the table above is supervisor.go, anchor.go and waiter.go, a row a case. Only files with "amd64 || arm64"
// on top run without a runtime, entered.go aside; the others are for the processes that have one. A new field of Page needs no more than
// its line. Build for both processors (make build GOARCH=arm64).
package waiting
