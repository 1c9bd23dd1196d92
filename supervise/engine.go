package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	container "mcp-tether/internal/engine"
	"mcp-tether/internal/engine/proxy"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// engine is the tree's side of a container engine. Until a client connects it is a listening socket in the supervisor's
// poll set and nothing else. From then on goroutines beside the loop serve the clients.
type engine struct {
	endpoint container.Endpoint
	claim    container.Claim // without the ledger
	grace    time.Duration
	limit    time.Duration
	log      zerolog.Logger
	proxy    *proxy.Proxy // nil when recovering
	listener int          // -1 when there is none, or the proxy has it
	socket   string
	// dir is the directory of the session, and journal is in it; both nil without one.
	dir     *session.Directory
	journal *session.Journal
	// unread says that the notes of a killed supervisor must still be read.
	unread bool
	// outcome receives the result of the removal; nil until it has begun.
	outcome chan removal
	// scope is the tree's, which has to know what is below our helpers before they end; nil without a tree.
	scope *teardown.Scope

	mu       sync.Mutex // of all below
	ledger   container.Ledger
	helpers  []proc.ID // `docker system dial-stdio` processes of ours
	reader   proc.Reader
	served   bool
	warned   bool
	said     string    // the last warning
	since    time.Time // of the first warning of this period
	warnings int       // warnings in it
	noted    int       // notes since the last forget
	// forgetAt is the number of notes at which the next one is due.
	forgetAt   int
	suppressed int // warnings that were left out
}

// removal is the result of removing a session's containers.
type removal struct {
	done  bool
	ended []container.Result
	count int   // of what was ended
	err   error // says what may be left
	asked bool  // what may be left has had its grace period
}

// dialTimeout bounds the connection to an engine's socket: an engine that hangs must not block a client for ever.
const dialTimeout = 5 * time.Second

// openEngine puts the proxy between the server and its container engine, if one is in sight. If that fails, a warning says
// so, and the session runs without the promise about containers.
func (t *tree) openEngine() {
	if t.opts.Containers == ContainersOff {
		return
	}
	e, err := t.newEngine(false)
	switch {
	case err != nil:
		t.log.Warn().Err(err).Msg("containers will not end with this session")
		return
	case e == nil && t.opts.Containers == ContainersAll:
		t.log.Warn().Msg("no container engine is in sight: containers will not end with this session")
	}
	if e == nil {
		return
	}
	at := &e.endpoint
	if helper := at.Helper(); helper != "" {
		if _, err := proc.LookPath(helper, searchPath()); err != nil {
			t.log.Warn().Err(err).Str("engine", at.URL).Msg("containers will not end with this session: the engine has no socket here")
			return
		}
	}
	e.claim.Complete, e.scope = true, &t.scope
	if t.lease != nil {
		e.dir = t.lease.Dir()
		e.journal = e.dir.Journal(t.hand.ID)
	}
	if e.listener, e.socket, err = session.Listen(e.dir, t.hand.ID, os.Getuid()); err != nil {
		t.log.Warn().Err(err).Msg("containers will not end with this session")
		return
	}
	e.proxy = &proxy.Proxy{Dial: e.dial, Note: e.note, Warn: e.warn, At: *at, Socket: e.socket, Attached: t.opts.Containers == ContainersAttached}
	t.engine = e
	t.polled.add(clients, e.listener, unix.POLLIN)
	t.record.Engine, t.record.EngineContext, t.record.EnginePodman, t.record.Socket = at.URL, at.Context, at.Podman, e.socket
}

// newEngine makes the tree's side of the engine that is in sight now; nil if there is none. recorded says that the engine
// counts that the record names, if it names one: what the session has made is there. Its socket may be gone by now, or
// another context the current one.
func (c *common) newEngine(recorded bool) (*engine, error) {
	at, found, err := container.Resolve(c.opts.Engine, os.Getenv)
	if was := &c.record; recorded && was.Engine != "" && (at.URL != was.Engine || at.Context != was.EngineContext) {
		at, err = container.EndpointAt(was.Engine, was.EngineContext, was.EnginePodman)
		found = true
	}
	if err != nil || !found {
		return nil, err
	}
	// A command that reaches an engine may leave a daemon, as ssh does for ControlPersist. That is not the session's.
	at.Adopts = true
	return &engine{
		endpoint: at, forgetAt: forgetEvery, log: c.log, grace: c.opts.ContainerGrace, limit: c.opts.removalLimit(), listener: -1,
		claim: container.Claim{Session: c.hand.ID, TrustIDs: true},
	}, nil
}

// serveEngine starts the proxy: its first client has connected. Without an engine there is nothing to connect to.
func (t *tree) serveEngine() {
	if t == nil || t.engine == nil || t.engine.listener < 0 {
		return
	}
	e := t.engine
	proc.ResumeGC()
	base := t.labels()
	e.proxy.Labels = func() map[string]string {
		out := maps.Clone(base)
		out[container.LabelRequest] = container.NewRequest()
		out[container.LabelCreated] = time.Now().UTC().Format(time.RFC3339Nano)
		return out
	}
	l := container.NewListener(e.listener)
	e.listener = -1
	e.mu.Lock()
	e.served = true
	e.mu.Unlock()
	go func() {
		if err := e.proxy.Serve(l); err != nil {
			e.warn(err)
		}
	}()
}

// labels are what all creates of the session have in common.
func (c *common) labels() map[string]string {
	mark := func(id proc.ID) string { return proc.GlobalID{ID: id, Host: c.record.Host}.String() }
	out := map[string]string{
		container.LabelSession:    c.hand.ID,
		container.LabelGateway:    mark(c.record.Gateway),
		container.LabelSupervisor: mark(c.identity(os.Getpid())),
	}
	// The identity of a dead anchor would say nothing.
	if id := c.identity(c.hand.Anchor); !id.Zero() {
		out[container.LabelAnchor] = mark(id)
	}
	if id := container.MachineID(); id != "" {
		out[container.LabelMachine] = id
	}
	return out
}

// findEngine is the engine of a session whose supervisor was killed, known only by what was written down. It is nil when there is
// nothing to look for.
func (c *common) findEngine(dir *session.Directory) *engine {
	if c.opts.Containers == ContainersOff {
		return nil
	}
	e, err := c.newEngine(true)
	if e == nil || err != nil {
		return nil
	}
	if e.socket = c.record.Socket; e.socket == "" {
		// The record could not be written, probably for the reason that puts the socket there.
		e.socket = session.FallbackSocket(c.hand.ID, os.Getuid())
	}
	if e.dir = dir; dir == nil {
		// Nothing could be written down: the labels must do.
		return e
	}
	e.unread = true
	return e
}

// hasNotes reports whether there is something to look for, though no engine may be in sight.
func (c *common) hasNotes(dir *session.Directory) bool {
	return dir != nil && c.opts.Containers != ContainersOff && dir.HasNotes(c.hand.ID)
}

// recallOnce reads the journal of a killed supervisor, unless an earlier call has succeeded. The error
// says that there may be more objects than we know of. A damaged journal is no error, because reading it again does not
// help.
func (e *engine) recallOnce() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.unread {
		return nil
	}
	err := e.recall()
	e.claim.Complete = err == nil
	if err != nil && !errors.Is(err, session.ErrTorn) {
		return fmt.Errorf("read what the session has made: %w", err)
	}
	e.unread = false
	return nil
}

// recall reads what was noted before.
func (e *engine) recall() error {
	notes, err := e.dir.Notes(e.claim.Session)
	for _, n := range notes {
		e.ledger.Add(n)
	}
	return err
}

// dial connects to the engine. The lock keeps a teardown from seeing a helper before it is known as one.
func (e *engine) dial() (net.Conn, error) {
	if e.endpoint.Socket == "" {
		e.mu.Lock()
		defer e.mu.Unlock()
	}
	return e.endpoint.Dial(dialTimeout, nil, e.addHelper)
}

// addHelper remembers a helper, and forgets those whose sessions (setsid(2)) have no process left, or whose pid another
// process has.
func (e *engine) addHelper(pid int) {
	all, err := e.reader.Descendants(os.Getpid())
	if err == nil {
		left := e.helpers[:0]
		for _, id := range e.helpers {
			if hasSession(all, id) {
				left = append(left, id)
			}
		}
		e.helpers = left
	}
	if st, err := e.reader.Stat(pid); err == nil {
		e.helpers = append(slices.Clip(e.helpers), st.ID)
	}
}

// hasSession reports whether a process of the table is in the session of this leader, and none has taken the leader's pid.
func hasSession(all []proc.Stat, leader proc.ID) (has bool) {
	for _, p := range all {
		if p.PID == leader.PID && p.Start != leader.Start {
			return false
		}
		has = has || p.Session == leader.PID
	}
	return has
}

// running are the helpers, which are no members of the session.
func (e *engine) running() []proc.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.helpers)
}

// note writes down what the session does to the engine. Without a journal it is still known here.
func (e *engine) note(n container.Note) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ledger.Add(n)
	if e.journal == nil {
		return
	}
	if e.ledger.Empty() && e.claim.Complete && e.journal.Reset() == nil {
		return
	}
	if err := e.journal.Note(n); err != nil && !e.warned {
		e.warned = true
		e.log.Warn().Err(err).Msg("containers are not recorded: if mcp-tether is killed they stay")
	}
	if e.noted++; e.noted >= e.forgetAt {
		e.noted, e.forgetAt = 0, math.MaxInt
		go e.forget()
	}
}

// forgetEvery is the number of notes after which containers that are gone are taken out of the ledger.
const forgetEvery = 256

// forget takes those containers out of ledger and journal that the engine has removed by itself (--rm), or others have.
func (e *engine) forget() {
	e.mu.Lock()
	known := e.ledger.Objects()
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), e.limit)
	defer cancel()
	have, err := container.Client{Dial: e.dial}.Containers(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetAt = forgetEvery
	if err != nil || e.journal == nil || !e.claim.Complete {
		return // at another time, or never
	}
	there := map[string]bool{}
	for _, x := range have {
		there[x.ID] = true
	}
	for _, o := range known {
		if o.Kind == container.Container && !there[o.ID] {
			e.ledger.Add(container.Note{Op: container.OpRemoved, Kind: o.Kind, ID: o.ID})
			e.proxy.Forget(o.Kind, o.ID)
		}
	}
	notes := e.ledger.Notes()
	if err := e.journal.Replace(notes); err != nil {
		e.log.Debug().Err(err).Msg("the journal of containers could not be shortened")
	}
	e.forgetAt += len(notes)
}

// At most maxWarnings are logged in each warnPeriod: a client can cause as many as it likes.
const (
	maxWarnings = 20
	warnPeriod  = time.Minute
)

// warn logs an error, but not the same one twice in a row, and not too many. tellSuppressed logs later how many were left
// out.
func (e *engine) warn(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.said == err.Error() {
		return
	}
	e.said = err.Error()
	if now := time.Now(); now.Sub(e.since) > warnPeriod {
		e.tellSuppressed()
		e.since, e.warnings = now, 0
	}
	if e.warnings++; e.warnings > maxWarnings {
		e.suppressed++
		return
	}
	e.log.Warn().Err(err).Msg("container engine")
}

// tellSuppressed logs how many warnings were left out. The caller holds mu.
func (e *engine) tellSuppressed() {
	if e.suppressed > 0 {
		e.log.Warn().Int("count", e.suppressed).Msg("more warnings about the container engine were left out")
	}
	e.suppressed = 0
}

// shutEngine begins to remove what the session made, while its processes end. No client can connect any more: what it
// made would not be looked for.
func (t *tree) shutEngine() {
	if t.engine != nil {
		t.polled.remove(clients)
		t.engine.shut()
	}
}

func (e *engine) shut() {
	if e.listener >= 0 {
		_ = unix.Close(e.listener)
		e.listener = -1
	}
	if e.outcome != nil {
		return
	}
	e.outcome = make(chan removal, 1)
	if e.idle() {
		e.outcome <- removal{}
		return
	}
	go func() { e.outcome <- e.remove() }()
}

// idle reports whether there is nothing to remove.
func (e *engine) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.served && e.ledger.Empty() && e.claim.Complete
}

// errUnanswered says that what the engine is still working on may become a container.
var errUnanswered = errors.New("the engine has not answered a create")

// remove ends what the session made, in rounds. Each has the grace period and the limit: a container that ignores its stop
// signal uses the former up, and is killed after that. Later rounds have no grace period if all have had it: a container
// that cannot be removed would use it up each time. Before the first round the outcomes of all creates are waited for, and
// after that while there is time in a round. One that the engine never answers must not keep the others alive.
func (e *engine) remove() (r removal) {
	settled := e.proxy == nil
	if !settled {
		ctx, cancel := context.WithTimeout(context.Background(), e.limit/2)
		settled = e.proxy.Shut(ctx)
		cancel()
	}
	grace := e.grace
	for range maxRounds {
		ctx, cancel := context.WithTimeout(context.Background(), grace+e.limit)
		done := r.count
		for i := range r.ended {
			if r.ended[i].Done {
				done++
			}
		}
		r = e.removeOnce(ctx, grace)
		r.count = done
		switch {
		case !settled:
			// What has come of it since is for the next round.
			settled = e.proxy.Shut(ctx)
			if r.err == nil {
				r.err = errUnanswered
			}
		case r.asked:
			grace = 0
		}
		cancel()
		if r.err == nil || !e.answers() {
			break
		}
	}
	return r
}

// answers reports whether the engine is there, and not stuck.
func (e *engine) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	_, err := container.Client{Dial: e.dial}.Containers(ctx)
	return err == nil
}

// removeOnce ends what is known to have been made.
func (e *engine) removeOnce(ctx context.Context, grace time.Duration) removal {
	unread := e.recallOnce()
	e.mu.Lock()
	claim := e.claim
	claim.Ledger = e.ledger.Clone()
	e.mu.Unlock()
	if claim.Complete && claim.Ledger.Empty() {
		return removal{}
	}
	ended, err := claim.End(ctx, container.Client{Dial: e.dial}, grace)
	// The labels may not have told of everything.
	return removal{ended: ended, err: errors.Join(err, unread), asked: claim.HadGrace(ended)}
}

// endHelpers ends our helpers and what they have started. They would end by themselves, because no process holds their
// connections any more, but perhaps after us. What they leave falls to us. Nothing shows whose that is, unless it was seen
// below them. The number of one that has ended may be that of another session, so nothing is done for that one.
func (e *engine) endHelpers() {
	helpers := e.running()
	if len(helpers) == 0 {
		return
	}
	if e.scope != nil {
		_, _, _ = e.scope.Members()
	}
	all, _ := e.reader.Descendants(os.Getpid()) // what cannot be listed ends by itself
	for _, id := range helpers {
		if e.reader.Life(id) != proc.Alive {
			continue
		}
		for _, p := range all {
			if p.Session == id.PID {
				_ = e.reader.Signal(p.ID, unix.SIGKILL)
			}
		}
	}
}

// closeEngine waits for the removal, which is bounded, and logs what it has ended. e may be nil.
func (c *common) closeEngine(e *engine) removal {
	if e == nil {
		return removal{}
	}
	c.polled.remove(clients)
	r := e.close()
	for _, x := range r.ended {
		c.log.Debug().Str("kind", string(x.Kind)).Str("id", x.ID).Str("container", x.Name).Str("why", x.Why).Bool("done", x.Done).
			AnErr("error", x.Err).Msg("container ended")
	}
	c.reportLeft(r)
	return r
}

func (c *common) reportLeft(r removal) {
	if r.err != nil {
		c.log.Error().Err(r.err).Msg("containers may be left: mcp-tether reap looks again")
	}
}

// close ends what the session made, and releases all that the engine holds.
func (e *engine) close() removal {
	e.shut()
	r := <-e.outcome
	r.done = true
	r.count += len(r.ended)
	if e.proxy != nil {
		e.proxy.Close()
	}
	e.mu.Lock()
	e.tellSuppressed()
	e.mu.Unlock()
	e.endHelpers()
	if err := e.dir.RemoveSocket(e.socket, e.claim.Session); err != nil {
		r.err = errors.Join(r.err, err)
	}
	e.closeJournal(r.err == nil)
	return r
}

// closeJournal closes the journal, and empties it if nothing is left. Later notes are not written down.
func (e *engine) closeJournal(empty bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.journal == nil {
		return
	}
	if empty {
		if err := e.journal.Reset(); err != nil {
			e.log.Debug().Err(err).Msg("the journal of containers could not be emptied")
		}
	}
	e.journal.Close()
	e.journal = nil
}
