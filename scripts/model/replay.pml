/*
 * Is the log of a session one of the model's runs? Then the model comes to its end, where a step that the code logs is possible only
 * where the log has it next. What is not logged stays free, and faults come only where a test says that it made them.
 */

/* What the code logs, with its fields, is the step of protocol.pml that has the name. The process is that of the line's session: its
 * anchor for RECOVERING and what follows, else its supervisor, or the front. */
#define STARTED 1       /* LOG server started */
#define DRAINING 2      /* LOG server is ending: state=draining */
#define INPUT_CLOSED 3  /* LOG server is ending: state=ending cause=stdin-closed */
#define OUTPUT_CLOSED 4 /* LOG server is ending: state=ending cause=stdout-closed */
#define GATEWAY_GONE 5  /* LOG server is ending: state=ending cause=gateway-gone */
#define ANCHOR_GONE 6   /* LOG server is ending: state=ending cause=anchor-gone */
#define ASKED_TO_END 7  /* LOG server is ending: state=ending cause=signal */
#define SERVER_GONE 8   /* LOG server is ending: state=ending cause=server-exited */
#define RECOVERING 9    /* LOG server is ending: state=ending cause=supervisor-gone */
#define SIGTERMS 10     /* LOG signalled: signal=SIGTERM */
#define KILLING 11      /* LOG server is ending: state=killing */
#define SIGKILLS 12     /* LOG signalled: signal=SIGKILL */
#define UNRECORDED 13   /* LOG session record removed: */
#define ENDED 14        /* LOG server and all that it started ended: */
#define OVER 15         /* LOG session ended: */
#define NAPS 16         /* LOG server sleeps: */
#define CRASHED 17      /* LOG server ended by itself: */
#define PRESSED 18      /* LOG the server's session has not ended in time: */

/* What a test does from here on, or is about to do, to the process that it names. */
#define MAY_DIE 20   /* TEST kills */
#define MAY_STOP 21  /* TEST stops */
#define MAY_EXIT 22  /* TEST lets end */
#define MAY_ASK 23   /* TEST sends SIGTERM */
#define MAY_CLOSE 24 /* TEST closes the input */
#define MAY_SWEEP 25 /* TEST reaps */
#define MAY_LAG 26   /* TEST waits for */
#define NOTHING 27   /* TEST has found nothing left */

hidden byte what[256], who[256]; /* the log: a step and a process, up to 0 */
byte pos;                        /* what is next there */
byte allowed[W+1];               /* of each process, MAY_DIE is 1, MAY_STOP 2, and so on */
byte doomed;                     /* it was killed when it had done a step, and before it could log that */

#define heard(e, p) (what[pos] == e && who[pos] == p)
#define logs(e, p) && (p == W || heard(e, p) || allowed[p] & 1 && !doomed) -> \
	if \
	:: p == W \
	:: p != W && heard(e, p) -> said() \
	:: p != W && allowed[p] & 1 && !doomed -> doomed = p \
	fi;
#define said() pos++; c_code { furthest(now.pos); }
#define dying(p) (doomed && doomed == p)
#define replays true
#define late(p) (st[p] == STUCK || lives(p) && may(MAY_LAG, p)) /* a busy machine may let one wait as if it were stuck */
#define sessions 2
#define leaves(s) (eof[s] || m[2*s] == ASKED || !lives(boss(s)) || may(MAY_EXIT, S+s)) /* else a test's server stays */
#define may(e, p) (allowed[p] >> (e - MAY_DIE) & 1)

c_decl {
	/* The log is in the environment, as two numbers for each line. */
	static int far;
	static void tell(void) { printf("came to %d\n", far); }
	static void furthest(int n);
};
c_code {
	static void furthest(int n) {
		if (n <= far) return;
		far = n;
		if (!what[far]) exit(0);
	}
};

inline hear() {
	c_code {
		char *words = getenv("TRACE");
		for (int i = 0; words && *words && i < 255; i++) {
			what[i] = strtol(words, &words, 10);
			who[i] = strtol(words, &words, 10);
		}
		atexit(tell);
	}
}

/* The lines of the test. */
#define remains(s) (can(A+s) || can(S+s) || st[A+s] != NO && !gone(s))
proctype Test() {
end:	do
	:: atomic { what[pos] >= MAY_DIE && what[pos] < NOTHING -> allowed[who[pos]] = allowed[who[pos]] | 1 << (what[pos] - MAY_DIE); said() }
	:: atomic { what[pos] == NOTHING && !remains(0) && !remains(1) && !can(F) && !lock[2] && !rec[2] -> said() }
	od
}
