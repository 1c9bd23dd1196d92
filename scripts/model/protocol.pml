/*
 * Who ends a session, whatever is killed or stopped: anchor, supervisor, front, host, record and sweep.
 *
 * Run it: make model. What is modelled, and what is left out: docs/model.md.
 *
 * All state is global. Each line with a guard is one step of one process, and a fault may come between any two. There is
 * no loop but of what ends a tree, so each run is finite. Where nothing can move any more, World asserts that what is over is
 * gone: that is the liveness. The other assertions are the safety.
 */

/* Processes: gateway, two fronts, two hosts, and of both sessions anchor and supervisor; the sweep. */
#define G 0
#define F 1
#define Q 3
#define A 5
#define S 7
#define W 9
/* Their states. What is stopped and continued is just late, as each may be here at each step. What is STUCK never goes on by
 * itself: it is stopped for good, traced, spinning, or hung in a system call. */
#define NO 0
#define EXITED 1
#define KILLED 2
#define RUN 3
#define STUCK 4
byte st[10];
byte pc[10]; /* the next step of each, 0 first */
#define can(p)   (st[p] == RUN)
#define lives(p) (st[p] >= RUN)
#define at(p, n) (can(p) && pc[p] == n)

/* Members of a session: 2*s is the server, 2*s+1 a helper that it forks. */
#define ASKED 3  /* has got SIGTERM */
#define GONE 4
#define REUSED 5 /* gone, and its pid is a stranger's */
byte m[4];
#define up(i)    (m[i] == RUN || m[i] == ASKED)
#define alive(s) (up(2*(s)) || up(2*(s)+1))

/* On disk: 0 and 1 are those of the sessions, 2 is the front's, 3 the place of a shared server. A lock is 0: no file, 1: free, or
 * 2+p: held by p. */
byte lock[4];
bit rec[3];
bit leaf[2];
#define held(i) (lock[i] > 1)

bit letter[2]; /* to the anchor: the session is over */
byte snap[10];  /* the members that a process has listed, to signal them */
bit watches[2]; /* the anchor has a pidfd of its parent as that lived, which the supervisor inherits */
bit tied[2];    /* the supervisor has one of the anchor */
bit eof[2], term[2]; /* standard input is closed; SIGTERM has come by way of the anchor */
byte attached[2]; /* the host of a front */
byte listens;   /* the host that fronts find */
byte current;   /* the session of the front; for W see swept */
byte swept;
bit begun[2];   /* a sweep has been at it */

/* How this world is. Each is tried. */
byte kind;
#define PLAIN 0 /* two sessions, the second beside what is left of the first */
#define FRONT 1 /* two starts behind one front */
#define SHARED 2 /* two fronts, and one host after the other */
bit polite;    /* members end when asked, and the server also by itself */
bit contained; /* there are cgroups */
byte faults = 2, recycled = 1;
bit quiet;
byte fronts = 2;
bit rich;  /* clients close, ask and crash as they like; that takes more states, so it is searched with one fault */
bit twins; /* in plain the second session starts beside the first */
byte bug; /* the planted mistake, 0 for none */
#define UNCHECKED 1 /* BUG in plain: a supervisor or anchor signals a pid without reading its start time again */
#define SWEEP_UNCHECKED 2 /* BUG in plain: the sweep takes the pid of a record for the server, whoever has it now */
#define SWEEP_HELD 3 /* BUG in plain: the sweep does not ask whether a record's lock is held */
#define LOCK_LATE 4 /* BUG in plain: the lock file has its name before it is locked */
#define RECORD_FIRST 5 /* BUG in plain: the supervisor removes record and lock before its tree is empty */
#define LOCK_FIRST 6 /* BUG in plain: the lock goes before the record, which nobody looks at then */
#define LEAF_LAST 7 /* BUG in plain: the record goes before the leaf that only it names */
#define LOCK_INHERITED 8 /* BUG in plain: the server inherits the lock, which looks held when anchor and supervisor are dead */
#define ONE_TIE 9 /* BUG in plain: the supervisor does not watch its anchor: the parent death signal is the only tie */
#define WATCH_LATE 10 /* BUG in plain: the anchor opens the pidfd of its parent after the second getppid */
#define NO_GETPPID 11 /* BUG in plain: the supervisor does not ask whether its anchor ended before it was watched */
#define NO_WATCHDOG 12 /* BUG in plain: the anchor waits for ever for a supervisor that is stuck */
#define ONE_ROUND 13 /* BUG in plain: one round of SIGKILL, and none for what was born meanwhile */
#define SERVER_ONLY 14 /* BUG in plain: the end of the server is taken for the end of its tree */
#define NO_RECOVERY 15 /* BUG in plain: the anchor takes a killed supervisor for one that has ended */
#define NO_SUBREAPER 16 /* BUG in plain: the anchor is no subreaper: without a leaf it finds only the server */
#define NO_WAIT 17 /* BUG in front: the next start does not wait for the end of the last one behind its front */
#define FRONT_ONLY 18 /* BUG in front: a session behind a front does not watch the gateway as well */
#define LIVING_FRONT 19 /* BUG in front: a session removes its front's record without asking whether the front lives */
#define THREAD_TIE 20 /* BUG in plain: the anchor has a parent death signal, which comes when the gateway's thread ends */
#define PLACE_FREE 21 /* BUG in shared: a front gives up the lock of the place before its host has it */

#define boss(s)   (kind == PLAIN -> G : (kind == FRONT -> F : Q + (s)))
#define orphan(s) (!lives(boss(s)) || kind != SHARED && bug != FRONT_ONLY && !lives(G))
/* What is left if only a stuck process could act. Nobody may touch it. */
#define hopeless(s) ((st[A+(s)] == STUCK || st[S+(s)] == STUCK) && !can(A+(s)) && !can(S+(s)) || kind == SHARED && st[Q+(s)] == STUCK)
#define over(s) (!lives(A+(s)) || !lives(boss(s)) || !lives(G))
#define gone(s) (!alive(s) && !leaf[s] && !rec[s] && !lock[s])

#define late(p) (st[p] == STUCK)
#define sessions (kind == SHARED -> 1 : 2) /* the second host's is left out */

/* The kernel: the locks of a dead process are free, its connections closed, and its server may have got the parent death signal.
 * how is KILLED or EXITED. */
#define unlocked(i, p) lock[i] = (lock[i] == 2+(p) && !(bug == LOCK_INHERITED && p >= S && alive(p-S)) -> 1 : lock[i])
inline die(p, how) {
	st[p] = how; pc[p] = 0; snap[p] = 0;
	unlocked(0, p); unlocked(1, p); unlocked(2, p); unlocked(3, p);
	if
	:: listens == p -> listens = 0
	:: p == F || p == F+1 -> attached[p-F] = 0
	:: (p == S || p == S+1) && up(2*(p-S)) -> m[2*(p-S)] = GONE
	:: (p == S || p == S+1) && up(2*(p-S)) -> skip /* it has changed its user, and gets none */
	:: else
	fi;
	forget(0); forget(1)
}

/* What is over need not be told apart any more. */
inline forget(s) {
	if
	:: !lives(A+s) && !lives(S+s) && st[A+s] != NO && gone(s) && !(lives(W) && swept == s) ->
		st[A+s] = EXITED; st[S+s] = EXITED; m[2*s] = GONE; m[2*s+1] = GONE;
		eof[s] = 0; term[s] = 0; watches[s] = 0; tied[s] = 0; letter[s] = 0; begun[s] = 0
	:: else
	fi
}

proctype Fault(byte p) {
end:	do
	:: atomic { faults && lives(p) -> faults--; die(p, KILLED) }
	:: atomic { faults && can(p) && p != W -> faults--; st[p] = STUCK }
	:: atomic { p == G && can(G) -> die(G, EXITED) }
	:: atomic { bug == THREAD_TIE && (p == A || p == A+1) && kind == PLAIN && lives(p) && lives(G) -> die(p, EXITED) } /* of the gateway */
	od
}

/* The members of a session. A server forks when it begins or, the worst time, while it is listed to be signalled. */
proctype Tree(byte s) {
#define listed(k) (snap[S+s] & k || snap[A+s] & k || snap[W] & k && swept == s)
end:	do
	:: atomic { up(2*s) && m[2*s+1] == NO && listed(1) -> m[2*s+1] = RUN }
	:: atomic { up(2*s) && polite -> m[2*s] = GONE }
	:: atomic { m[2*s+1] == ASKED && polite -> m[2*s+1] = GONE }
	:: atomic { recycled && m[2*s] == GONE && (listed(1) || rec[s]) -> recycled--; m[2*s] = REUSED }
	:: atomic { recycled && m[2*s+1] == GONE && listed(2) -> recycled--; m[2*s+1] = REUSED }
	od
}

/* A signal by pid: the start time is read again between pidfd_open and the signal. */
inline hit(n, to) {
	if
	:: m[n] == RUN || m[n] == ASKED -> m[n] = to
	:: m[n] == REUSED -> assert(!(bug == UNCHECKED && o != W) && !(bug == SWEEP_UNCHECKED && o == W)) /* a stranger is touched */
	:: else
	fi
}
inline send(first, second) {
	assert(o != W || !lives(S+s)); /* a living session is touched */
	if :: snap[o] & 1 -> hit(2*s, first) :: else fi;
	if :: snap[o] & 2 -> hit(2*s+1, second) :: else fi;
	snap[o] = 0
}
/* A look: all below the subreaper or in the leaf, and for the sweep what has the mark or is the record's server. */
#define helper(o, s) (up(2*s+1) && !(bug == NO_SUBREAPER && o >= A && o < S && !contained))
#define sees(o, s) (up(2*s) || helper(o, s))
inline look() {
	snap[o] = up(2*s) + 2*helper(o, s);
	if :: bug == SWEEP_UNCHECKED && o == W && rec[s] && m[2*s] == REUSED -> snap[o] = snap[o] | 1 :: else fi
}

#define ENDS 20
#define ASKS 21
#define WAITS 22
#define KILLS 23
#define SHOOTS 24
#define EMPTY 25
#define NOLEAF 26
#define NORECORD 27
#define NOLOCK 28
inline shoot() {
	if :: leaf[s] && bug != ONE_ROUND -> snap[o] = snap[o] | up(2*s) | 2*up(2*s+1) :: else fi; /* cgroup.kill spares none */
	if :: bug == ONE_ROUND -> pc[o] = EMPTY :: else -> pc[o] = KILLS fi;
	send(GONE, GONE)
}
/* The end of a session by its supervisor, its recovering anchor, or the sweep. */
proctype Teardown(byte o, s) {
#define here (can(o) && (o != W || swept == s))
end:	do
	:: atomic { here && pc[o] == ENDS -> look(); pc[o] = ASKS }
	:: atomic { here && pc[o] == ASKS -> send(ASKED, ASKED); pc[o] = WAITS }
	:: atomic { here && pc[o] == WAITS && !sees(o, s) -> pc[o] = EMPTY }
	:: atomic { here && pc[o] == WAITS && bug == SERVER_ONLY && !up(2*s) -> pc[o] = EMPTY }
	:: atomic { here && pc[o] == WAITS -> pc[o] = KILLS }
	:: atomic { here && pc[o] == KILLS && sees(o, s) -> look(); pc[o] = SHOOTS }
	:: atomic { here && pc[o] == KILLS && !sees(o, s) -> pc[o] = EMPTY }
	:: atomic { here && pc[o] == SHOOTS -> shoot() }
	:: atomic { here && pc[o] == EMPTY && bug != LEAF_LAST -> leaf[s] = (leaf[s] && alive(s)); pc[o] = NOLEAF } /* rmdir(2) spares a full one */
	:: atomic { here && pc[o] == EMPTY && bug == LEAF_LAST -> pc[o] = NOLEAF }
	:: atomic { here && pc[o] == NOLEAF && lock[s] != 2 + o && !held(s) -> lock[s] = 2 + o }
	:: atomic { here && pc[o] == NOLEAF && held(s) && lock[s] != 2 + o -> pc[o] = NOLOCK } /* another one ends it as well */
	:: atomic { here && pc[o] == NOLEAF && lock[s] == 2 + o -> rec[s] = (bug == LOCK_FIRST); if :: bug == LOCK_FIRST -> lock[s] = 0 :: else fi; pc[o] = NORECORD }
	:: atomic { here && pc[o] == NORECORD -> rec[s] = 0; lock[s] = 0; pc[o] = NOLOCK }
	:: atomic { here && pc[o] == NOLOCK ->
		if :: bug == LEAF_LAST -> leaf[s] = 0 :: else fi;
		if
		:: o != W -> letter[s] = 1;
			/* The record of a front that was killed goes with that of its session. */
			if :: kind == FRONT && lock[2] && (!held(2) || bug == LIVING_FRONT) -> assert(!lives(F)); rec[2] = 0; lock[2] = 0 :: else fi
		:: else
		fi;
		die(o, EXITED) }
	od
}

proctype Supervisor(byte s) {
#define o (S+s)
#define no_anchor (tied[s] && !lives(A+s) && bug != ONE_TIE)
#define no_gateway (watches[s] && orphan(s))
#define must (no_anchor || no_gateway || term[s])
#define serves (at(o, 7) || at(o, 8))
#define end_it() pc[o] = ENDS; if :: bug == RECORD_FIRST -> rec[s] = 0; lock[s] = 0 :: else fi; \
	assert(faults < 2 || !lives(boss(s)) || !lives(G) || term[s]) /* for no reason */
end:	do
	/* A pidfd of the anchor, and then getppid(2): one that ended before shows in that. */
	:: atomic { at(o, 0) -> tied[s] = lives(A+s); pc[o] = 1 }
	:: atomic { at(o, 1) -> if :: !lives(A+s) && bug != NO_GETPPID -> die(o, EXITED) :: else -> pc[o] = 2 fi }
	/* The lock has its name only once it is held. */
	:: atomic { at(o, 2) && rich && no_gateway -> die(o, EXITED) }
	:: atomic { at(o, 2) -> if :: bug == LOCK_LATE && !lock[s] -> lock[s] = 1 :: else -> lock[s] = 2 + o; pc[o] = 3 fi }
	:: atomic { at(o, 3) && (kind != FRONT || s == 0 || !held(0) || st[lock[0]-2] == STUCK || bug == NO_WAIT) -> pc[o] = 4 }
	:: atomic { at(o, 3) && must -> pc[o] = EMPTY }
	:: atomic { at(o, 4) -> leaf[s] = contained; pc[o] = 5 }
	:: atomic { at(o, 5) -> assert(kind != FRONT || s == 0 || !alive(0) || !can(S)); /* beside a server that is ending */
		m[2*s] = RUN; pc[o] = 6; if :: m[2*s+1] = RUN :: skip fi }
	:: atomic { at(o, 5) -> pc[o] = EMPTY } /* it cannot be executed */
	:: atomic { at(o, 6) -> rec[s] = 1; pc[o] = 7 }
	:: atomic { at(o, 7) && (eof[s] || rich && !lives(boss(s))) -> pc[o] = 8 }
	:: atomic { serves && no_anchor -> end_it() }
	:: atomic { serves && no_gateway -> end_it() }
	:: atomic { serves && term[s] -> end_it() }
	:: atomic { at(o, 8) -> pc[o] = ENDS } /* --eof-grace is over */
	:: atomic { serves && !alive(s) -> pc[o] = EMPTY }
	:: atomic { at(o, 7) && !up(2*s) && alive(s) && bug != SERVER_ONLY -> pc[o] = ENDS }
	:: atomic { serves && !up(2*s) && alive(s) && bug == SERVER_ONLY -> pc[o] = EMPTY }
	od
#undef o
}

proctype Anchor(byte s) {
#define o (A+s)
end:	do
	/* A pidfd of the parent, and then getppid(2) once more. */
	:: atomic { at(o, 0) && bug != WATCH_LATE -> watches[s] = lives(boss(s)); pc[o] = 1 }
	:: atomic { at(o, 1) && bug != WATCH_LATE -> if :: !lives(boss(s)) -> die(o, EXITED) :: else -> pc[o] = 2 fi }
	:: atomic { at(o, 0) && bug == WATCH_LATE -> if :: !lives(boss(s)) -> die(o, EXITED) :: else -> pc[o] = 1 fi }
	:: atomic { at(o, 1) && bug == WATCH_LATE -> watches[s] = lives(boss(s)); pc[o] = 2 }
	:: atomic { at(o, 2) -> st[S+s] = RUN; pc[o] = 3 }
	/* The watchdog: the supervisor has the same reason to end the session, and does not. */
	:: atomic { at(o, 3) && late(S+s) && (watches[s] && orphan(s) || term[s]) && bug != NO_WATCHDOG -> die(S+s, KILLED) }
	:: atomic { at(o, 3) && !lives(S+s) -> pc[o] = 4 }
	:: atomic { at(o, 4) && (letter[s] || bug == NO_RECOVERY) -> die(o, EXITED) }
	:: atomic { at(o, 4) && !letter[s] && !rec[s] && !lock[s] && !leaf[s] && m[2*s] == NO -> die(o, EXITED) } /* nothing was started */
	:: atomic { at(o, 4) && !letter[s] && bug != NO_RECOVERY && (rec[s] || lock[s] || leaf[s] || m[2*s] != NO) ->
		if :: !held(s) -> lock[s] = 2 + o :: else fi;
		pc[o] = ENDS }
	od
#undef o
}

/* A front before two starts of its server, by hibernation or after a crash. */
proctype Front() {
end:	do
	:: atomic { kind == FRONT && at(F, 0) -> if :: lives(G) -> pc[F] = 1 :: else -> die(F, EXITED) fi }
	:: atomic { at(F, 1) && kind == FRONT -> lock[2] = 2 + F; rec[2] = 1; pc[F] = 2 }
	:: atomic { at(F, 2) && kind == FRONT -> st[A+current] = RUN; pc[F] = 3 }
	:: atomic { at(F, 3) && kind == FRONT && !lives(G) -> term[current] = 1; pc[F] = 6 }
	/* The client ends the session, by SIGTERM or the end of its input, or it is idle. */
	:: atomic { at(F, 3) && kind == FRONT && rich -> term[current] = 1; pc[F] = 6 }
	:: atomic { at(F, 3) && kind == FRONT && rich -> eof[current] = 1; pc[F] = 6 }
	:: atomic { at(F, 3) && kind == FRONT && (current == 0 || rich) -> eof[current] = 1; pc[F] = 4 }
	:: atomic { at(F, 3) && kind == FRONT && (current == 0 || rich) && !lives(A+current) -> pc[F] = 5 }
	:: atomic { at(F, 3) && kind == FRONT && (current == 1 || rich) && !lives(A+current) -> pc[F] = 7 } /* --on-crash=exit */
	:: atomic { at(F, 4) && !lives(A+current) -> pc[F] = 5 }
	/* A message comes. The pause after a crash is longer than a start takes that is not stuck. */
	:: atomic { at(F, 5) && current == 0 && (!can(S) || rec[0]) -> current = 1; pc[F] = 2 }
	:: atomic { at(F, 5) && rich -> pc[F] = 7 }
	:: atomic { (at(F, 4) || at(F, 5)) && !lives(G) -> term[current] = 1; pc[F] = 6 }
	:: atomic { at(F, 6) && !lives(A+current) -> pc[F] = 7 }
	/* EndLimit is over, and again. */
	:: atomic { (at(F, 4) || at(F, 6)) && late(S+current) && !term[current] -> term[current] = 1 }
	:: atomic { (at(F, 4) || at(F, 6)) && late(A+current) -> die(A+current, KILLED) }
	:: atomic { at(F, 7) -> rec[2] = 0; pc[F] = 8 }
	:: atomic { at(F, 8) -> lock[2] = 0; die(F, EXITED) }
	od
}

/* A front that shares a server: who has the lock of the place makes the socket, starts the host and passes both on. */
proctype Sharer(byte f) {
#define parted(h) (!lives(h) || rich && pc[h] == 3)
end:	do
	:: atomic { kind == SHARED && at(f, 0) -> if :: lives(G) -> pc[f] = 1 :: else -> die(f, EXITED) fi }
	:: atomic { kind == SHARED && at(f, 1) && listens && lives(listens) -> attached[f-F] = listens; pc[f] = 3 }
	:: atomic { kind == SHARED && at(f, 1) && !held(3) -> lock[3] = 2 + f; listens = 0; pc[f] = 2 }
	:: atomic { kind == SHARED && at(f, 2) && (st[Q] == NO || st[Q+1] == NO) ->
		lock[3] = (bug == PLACE_FREE -> 1 : (st[Q] == NO -> 2+Q : 3+Q)); pc[f] = 1;
		if :: st[Q] == NO -> st[Q] = RUN :: else -> st[Q+1] = RUN fi }
	:: atomic { kind == SHARED && at(f, 2) && st[Q] != NO && st[Q+1] != NO -> die(f, EXITED) } /* there are no more in this world */
	:: atomic { kind == SHARED && at(f, 3) && parted(attached[f-F]) -> attached[f-F] = 0; pc[f] = 1 }
	:: atomic { kind == SHARED && (at(f, 1) || at(f, 3)) && !lives(G) -> die(f, EXITED) }
	:: atomic { kind == SHARED && rich && at(f, 3) -> die(f, EXITED) }
	od
}

proctype Host(byte h) {
#define s (h-Q)
#define wanted (attached[0] == h || attached[1] == h)
end:	do
	:: atomic { at(h, 0) -> assert(!listens || !lives(listens)); /* two hosts of one place */
		lock[3] = 2 + h; listens = h; pc[h] = 1 }
	:: atomic { at(h, 1) && wanted -> pc[h] = 2; if :: s < sessions -> st[A+s] = RUN :: else fi }
	:: atomic { at(h, 1) && !wanted -> listens = 0; lock[3] = 0; die(h, EXITED) } /* no client has come */
	:: atomic { at(h, 2) && !lives(G) -> listens = 0; lock[3] = 0; term[s] = 1; pc[h] = 3 }
	:: atomic { at(h, 2) && !wanted -> listens = 0; lock[3] = 0; eof[s] = 1; pc[h] = 3 } /* --share-linger is over */
	:: atomic { at(h, 2) && s < sessions && !lives(A+s) -> listens = 0; lock[3] = 0; pc[h] = 3 }
	:: atomic { at(h, 3) && (!lives(A+s) || st[A+s] == STUCK || st[S+s] == STUCK) -> die(h, EXITED) } /* or EndLimit is over */
	od
#undef s
}

/* The sweep that a later run starts: what has a free lock, and no living anchor in its record. */
proctype Sweep() {
#define dead(n) (!lives(W) && lock[n] && (!held(n) || bug == SWEEP_HELD))
/* Who lost one of both needs no sweep. */
#define felled(s) (lives(A+s) || st[A+s] == KILLED && st[S+s] == KILLED)
end:	do
	:: atomic { dead(0) && !(rec[0] && lives(A)) -> swept = 0; st[W] = RUN; pc[W] = ENDS;
		assert(felled(0) || begun[0] || held(0)); begun[0] = 1 }
	:: atomic { dead(1) && !(rec[1] && lives(A+1)) -> swept = 1; st[W] = RUN; pc[W] = ENDS;
		assert(felled(1) || begun[1] || held(1)); begun[1] = 1 }
	:: atomic { dead(2) && !held(2) -> swept = 2; st[W] = RUN; pc[W] = 1 }
	:: atomic { dead(3) && !held(3) && kind == SHARED -> lock[3] = 0; if :: listens && !lives(listens) -> listens = 0 :: else fi }
	:: atomic { at(W, 1) -> if :: !held(2) -> rec[2] = 0; lock[2] = 0 :: else fi; die(W, EXITED) }
	od
}

proctype World() {
end:	do
	:: atomic { kind == PLAIN && lives(G) && st[A] == NO -> st[A] = RUN }
	:: atomic { kind == PLAIN && lives(G) && st[A+1] == NO && st[A] != NO && (twins || !can(A) && !can(S)) -> st[A+1] = RUN }
	/* The gateway closes the input of one, or sends SIGTERM, which its anchor passes on. */
	:: atomic { kind == PLAIN && at(S, 7) && !eof[0] -> eof[0] = 1 }
	:: atomic { kind == PLAIN && rich && at(S, 7) && at(A, 3) && lives(G) && !term[0] -> term[0] = 1 }
	:: atomic { kind == PLAIN && twins && at(S+1, 7) && !eof[1] -> eof[1] = 1 }
	:: atomic { kind == PLAIN && rich && twins && at(S+1, 7) && at(A+1, 3) && lives(G) && !term[1] -> term[1] = 1 }
	:: atomic { timeout && !quiet ->
		quiet = 1;
		assert(!over(0) || gone(0) || hopeless(0));
		assert(!over(1) || gone(1) || hopeless(1));
		assert(lives(F) || !lock[2] && !rec[2]);
		assert(!lock[3] || held(3) && lives(lock[3]-2)) }
	od
}

init {
	byte i;
	atomic {
		c_code { 
			if (getenv("BUG")) now.bug = atoi(getenv("BUG"));
			if (getenv("KIND")) now.kind = atoi(getenv("KIND"));
			if (getenv("FAULTS")) now.faults = atoi(getenv("FAULTS"));
			if (getenv("FRONTS")) now.fronts = atoi(getenv("FRONTS"));
			if (getenv("RICH")) now.rich = atoi(getenv("RICH"));
			if (getenv("TWINS")) now.twins = atoi(getenv("TWINS"));
		};
		if :: polite = 1 :: skip fi; if :: contained = 1 :: skip fi;
		st[G] = RUN;
		if :: kind != PLAIN -> st[F] = RUN :: else fi;
		if :: kind == SHARED && fronts == 2 -> st[F+1] = RUN :: else fi;
		run World(); run Sweep(); run Fault(G); run Fault(W);
		if
		:: kind == FRONT -> run Front(); run Fault(F)
		:: kind == SHARED -> run Sharer(F); run Sharer(F+1); run Host(Q); run Host(Q+1); run Fault(F); run Fault(F+1); run Fault(Q); run Fault(Q+1)
		:: else
		fi;
		do
		:: i < sessions -> if :: kind != SHARED || sessions == 2 -> run Fault(A+i); run Fault(S+i) :: else fi;
			run Tree(i); run Anchor(i); run Supervisor(i); run Teardown(S+i, i); run Teardown(A+i, i); run Teardown(W, i); i++
		:: else -> break
		od
	}
}
