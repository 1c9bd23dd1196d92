/*
 * Who ends a session, whatever is killed or stopped: anchor, supervisor, starter, and the page that they share.
 *
 * Run it: make model. What is modelled, and what is left out: docs/model.md. The code: internal/waiting, supervise/end.go.
 *
 * All state is global. Each line with a guard is one step of one process, and a fault may come between any two. A run ends when
 * nothing can move any more. Then World asserts that what is over is gone.
 */

/* Processes: gateway, anchor, supervisor, starter, server, and a helper that has left the server's tree. */
#define G 0
#define A 1
#define S 2
#define T 3
#define V 4
#define H 5
/* Their states: not started, ended by itself, killed, running, stopped (SIGSTOP), or stuck: traced, or in a system call. */
#define NO 0
#define EXITED 1
#define KILLED 2
#define RUN 3
#define STOPPED 4
#define STUCK 5
byte st[6];
byte pc[6]; /* the next step of each */
#define can(p)   (st[p] == RUN)
#define lives(p) (st[p] >= RUN)
#define dead(p)  (st[p] == EXITED || st[p] == KILLED)
#define at(p, n) (can(p) && pc[p] == n)

/* The page. */
bit ready, spawned, asked, done;
bit known; /* the session's record is in it */
bit told;  /* the descriptor of the record's lock is in it */

bit rec, leaf;      /* on disk */
bit watches, tied;  /* anchor and supervisor have a pidfd of the gateway; the supervisor has one of the anchor */
bit dies[5];        /* has its parent death signal */
bit pending[3];     /* a signal that ends has come to anchor or supervisor */
bit eof, signalled; /* the gateway has closed standard input; it has sent a signal that was not lost */
bit sees[3];        /* who ends the session has found the leaf */
bit holds[3];       /* and the record */

/* What happens in this world, at any time. Each choice is tried. */
bit contained; /* there are cgroups */
bit leaves, shuts; /* the gateway ends, by itself or not; it closes standard input */
bit quits, forks, fails; /* the server ends; it starts the helper; the starter finds no program */
byte asks; /* how many signals the gateway sends */
byte faults = 1;
bit quiet;

byte bug; /* the planted mistake, 0 for none */
#define STARTER_LEFT 1 /* BUG: the supervisor does not kill the starter before it ends the session */
#define STARTER_UNTIED 2 /* BUG: the starter has no parent death signal */
#define LOCK_LATE 3 /* BUG: the supervisor has no record before the starter says ready */
#define DONE_IGNORED 4 /* BUG: the anchor exits with the supervisor's code although done is not set */
#define NO_SUBREAPER 5 /* BUG: the anchor is no subreaper */
#define NO_GETPPID 6 /* BUG: the supervisor does not ask for its parent once it has a pidfd of the anchor */
#define NO_DEADLINE 7 /* BUG: the anchor waits for ever for a supervisor that is to end the session */
#define NOT_CONTINUED 8 /* BUG: nobody continues a child that was stopped */
#define SIGNALS_KILL 9 /* BUG: signals are not ignored before the jump */
#define GATEWAY_LATE 10 /* BUG: the anchor does not ask for its parent once it has a pidfd of the gateway */
#define PAGE_TORN 11 /* BUG: the record in the page is written over the one before */

/* The children of a dead supervisor get their death signal, or fall to the anchor. A server that has changed its user has none. */
inline die(p, how) {
	st[p] = how;
	if
	:: p == S ->
		if :: lives(T) && dies[T] -> st[T] = KILLED :: else fi;
		if :: lives(V) && dies[V] -> st[V] = KILLED :: lives(V) -> skip :: !lives(V) fi
	:: else
	fi
}

/* The signals that end are ignored while a process jumps to its runtime. */
inline jump(p) {
	if :: bug == SIGNALS_KILL && pending[p] -> die(p, KILLED) :: else -> pending[p] = 0; pc[p] = 20 fi
}

proctype Gateway() {
end:	do
	:: atomic { st[A] == NO && can(G) -> st[A] = RUN }
	:: atomic { can(G) && asks && lives(A) -> asks--;
		if :: pc[A] == 0 -> die(A, KILLED) :: else -> pending[A] = 1; signalled = 1 fi }
	:: atomic { can(G) && shuts && st[A] != NO -> shuts = 0; eof = 1 }
	:: atomic { can(G) && leaves && st[A] != NO -> eof = 1; die(G, EXITED) }
	od
}

proctype Anchor() {
end:	do
	:: atomic { at(A, 0) -> pc[A] = 1 } /* signals are blocked from here on */
	:: atomic { at(A, 1) -> watches = lives(G); pc[A] = 2 }
	:: atomic { at(A, 2) -> if :: !lives(G) && bug != GATEWAY_LATE -> die(A, EXITED) :: else -> pc[A] = 3 fi }
	:: atomic { at(A, 3) -> st[S] = RUN; pc[A] = 4 }
	:: atomic { at(A, 4) && pending[A] -> pending[A] = 0; asked = 1; pending[S] = lives(S) }
	:: atomic { at(A, 4) && watches && !lives(G) && !asked -> asked = 1 }
	:: atomic { at(A, 4) && st[S] == STOPPED && bug != NOT_CONTINUED -> st[S] = RUN }
	:: atomic { at(A, 4) && asked && lives(S) && !can(S) && bug != NO_DEADLINE -> die(S, KILLED) }
	:: atomic { at(A, 4) && dead(S) -> if :: done && st[S] == EXITED || bug == DONE_IGNORED -> die(A, EXITED) :: else -> pc[A] = 19 fi }
	:: atomic { at(A, 19) -> jump(A) }
	od
}

proctype Supervisor() {
#define waits at(S, 3)
#define why (pending[S] || tied && !lives(A) || watches && !lives(G) || st[T] == KILLED && !spawned || spawned && (dead(V) || eof))
end:	do
	:: atomic { at(S, 0) -> tied = lives(A); pc[S] = 1 }
	:: atomic { at(S, 1) -> if :: !lives(A) && bug != NO_GETPPID -> die(S, EXITED) :: else -> pc[S] = 2 fi }
	:: atomic { at(S, 2) -> st[T] = RUN; pc[S] = 3 }
	:: atomic { waits && st[T] == STOPPED && bug != NOT_CONTINUED -> st[T] = RUN }
	:: atomic { waits && st[T] == EXITED && !ready -> done = 1; die(S, EXITED) } /* with the starter's code */
	:: atomic { waits && ready && !spawned && !why -> st[V] = RUN; spawned = 1 }
	:: atomic { waits && why -> asked = 1; pc[S] = 18 }
	:: atomic { at(S, 18) -> if :: lives(T) && bug != STARTER_LEFT -> st[T] = KILLED :: else fi; pc[S] = 19 }
	:: atomic { at(S, 19) -> jump(S) }
	od
}

proctype Starter() {
end:	do
	:: atomic { at(T, 0) -> dies[T] = (bug != STARTER_UNTIED); pc[T] = 1 }
	:: atomic { at(T, 1) -> if :: !lives(S) && bug != STARTER_UNTIED -> st[T] = EXITED :: else -> pc[T] = 2 fi }
	:: atomic { at(T, 2) -> known = 1; pc[T] = 3 }
	:: atomic { at(T, 3) -> rec = 1; pc[T] = 4 }
	:: atomic { at(T, 4) && !fails -> leaf = contained; pc[T] = 5 }
	:: atomic { at(T, 5) && !fails -> ready = 1; told = 1; pc[T] = 6 }
	:: atomic { at(T, 6) && spawned -> rec = 1; known = (bug != PAGE_TORN); pc[T] = 7 } /* with the server's pid */
	:: atomic { at(T, 7) -> known = 1; st[T] = EXITED }
	:: atomic { (at(T, 2) || at(T, 3) || at(T, 4)) && fails -> pc[T] = 8 } /* no such program, no cgroup */
	:: atomic { at(T, 8) -> leaf = 0; pc[T] = 9 }
	:: atomic { at(T, 9) -> rec = 0; st[T] = EXITED }
	od
}

proctype Server() {
end:	do
	:: atomic { at(V, 0) -> dies[V] = 1; pc[V] = 1 }
	:: atomic { at(V, 1) -> if :: !lives(S) -> st[V] = EXITED :: else -> pc[V] = 2 fi }
	:: atomic { at(V, 2) && forks && st[H] == NO -> st[H] = RUN }
	:: atomic { at(V, 2) && quits -> st[V] = EXITED }
	od
}

/* The end of a session, by the supervisor or the anchor. Members are asked first, which makes no difference here. */
proctype End(byte o) {
/* All is below the supervisor. The anchor has what has fallen to it. */
#define finds(p) (lives(p) && (o == S || bug != NO_SUBREAPER || sees[o] && p != T))
end:	do
	:: atomic { at(o, 20) -> sees[o] = leaf && known; holds[o] = known && (o == A || told || bug != LOCK_LATE); pc[o] = 21 }
	:: atomic { at(o, 21) && finds(V) -> st[V] = KILLED }
	:: atomic { at(o, 21) && finds(H) -> st[H] = KILLED }
	:: atomic { at(o, 21) && finds(T) -> st[T] = KILLED }
	:: atomic { at(o, 21) && !finds(V) && !finds(H) && !finds(T) -> pc[o] = 22 }
	:: atomic { at(o, 22) -> if :: sees[o] -> leaf = 0 :: else fi; pc[o] = 23 }
	:: atomic { at(o, 23) -> if :: holds[o] -> rec = 0 :: else fi; pc[o] = 24 }
	:: atomic { at(o, 24) -> if :: st[A] == STOPPED -> st[A] = RUN :: else fi; pc[o] = 25 }
	:: atomic { at(o, 25) -> done = 1; pc[o] = 26 }
	:: atomic { at(o, 26) -> die(o, EXITED) }
	od
}

/* A process is killed, stopped, or stuck. */
proctype Fault(byte p) {
end:	do
	:: atomic { faults && lives(p) -> faults--; die(p, KILLED) }
	:: atomic { faults && can(p) -> faults--; st[p] = STOPPED }
	:: atomic { faults && can(p) -> faults--; st[p] = STUCK }
	od
}

#define gone  (!lives(S) && !lives(T) && !lives(V) && !lives(H) && !rec && !leaf)
#define ended (spawned && (dead(V) || eof))
proctype World() {
end:	do
	:: atomic { timeout && !quiet ->
		quiet = 1;
		assert(!(dead(G) || dead(A) || dead(S)) || gone);
		/* The supervisor ends what is over, and is continued, and so is the starter. */
		assert(!lives(S) || st[S] == STUCK || !ended && st[S] != STOPPED && st[T] != STOPPED);
		/* The anchor has exited with a code. One that is stuck, or was stopped after all that, cannot. */
		assert(!can(A) || lives(S) && !signalled) }
	od
}

init {
	atomic {
		c_code { if (getenv("BUG")) now.bug = atoi(getenv("BUG")); };
		if :: contained = 1 :: skip fi; if :: leaves = 1 :: skip fi; if :: shuts = 1 :: skip fi; if :: quits = 1 :: skip fi;
		if :: forks = 1 :: skip fi; if :: fails = 1 :: skip fi; if :: asks = 2 :: skip fi;
		st[G] = RUN;
		run Gateway(); run Anchor(); run Supervisor(); run Starter(); run Server(); run End(S); run End(A); run World();
		run Fault(A); run Fault(S); run Fault(T)
	}
}
