package keeper

import (
	"maps"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/engine/proxy"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// Options are those of a Keeper.
type Options struct {
	// URL is that of the engine, "" for the one that the docker command would use.
	URL string
	// Session is the session's id.
	Session string
	// Attached says that only containers that run in the foreground of their client are to be kept track of.
	Attached bool
	// Grace is the time from a container's stop signal to its removal, and Limit what an engine may take in one round of
	// removals beside that; both 0 or more.
	Grace, Limit time.Duration
	Log          zerolog.Logger
}

// Keeper keeps track of what one session creates in a container engine.
type Keeper struct {
	endpoint engine.Endpoint
	o        Options
	proxy    *proxy.Proxy // nil in the starter, and in the anchor
	listener int          // -1 when there is none, or the proxy has it
	socket   string
	// dir is the directory of the session; nil without one.
	dir *session.Directory
	// outcome receives the result of the removal; nil until it has begun.
	outcome chan Removal
	// members has the session look at its members. What is below our helpers must be known before they end.
	members func()
	state
}

// state is what the goroutines of the clients share.
type state struct {
	mu    sync.Mutex // of all below
	claim engine.Claim
	// ledger is what is known of the claim's objects, and journal where it is written down; nil without one.
	ledger  engine.Ledger
	journal *session.Journal
	// unread says that the notes of a killed supervisor must still be read, unrecorded that the loss of notes was logged.
	unread, unrecorded bool
	helpers            []proc.ID // `docker system dial-stdio` processes of ours
	reader             proc.Reader
	served             bool
	warned             warnings
	noted              int // notes since the last forget
	// forgetAt is the number of notes at which the next one is due.
	forgetAt int
}

// dialTimeout bounds the connection to an engine's socket: an engine that hangs must not block a client for ever.
const dialTimeout = 5 * time.Second

// Find makes the keeper for the engine that is in sight now; nil if there is none.
func Find(o Options) (*Keeper, error) {
	at, found, err := engine.Resolve(o.URL, os.Getenv)
	if err != nil || !found {
		return nil, err
	}
	return newKeeper(o, at), nil
}

func newKeeper(o Options, at engine.Endpoint) *Keeper {
	k := &Keeper{endpoint: at, o: o, listener: -1}
	k.claim = engine.Claim{Session: o.Session, TrustIDs: true}
	k.forgetAt = forgetEvery
	return k
}

// Recover makes the keeper of a session whose supervisor was killed: what it has made is known only by what was written down.
// That is in the engine of the record: its socket may be gone by now, or another context the current one. dir may be nil. The
// result is nil when there is nothing to look for.
func Recover(o Options, was *session.Record, dir *session.Directory) *Keeper {
	at, found, err := engine.Resolve(o.URL, os.Getenv)
	if was.Engine != "" && (at.URL != was.Engine || at.Context != was.EngineContext) {
		at, err = engine.EndpointAt(was.Engine, was.EngineContext, was.EnginePodman)
		found = true
	}
	if err != nil || !found {
		return nil
	}
	k := newKeeper(o, at)
	k.socket = was.Socket
	// Without a directory nothing could be written down: the labels must do.
	k.dir, k.unread = dir, dir != nil
	return k
}

// Open listens for clients. The starter does, and the supervisor will serve them (Adopt). dir is the session's, and may be nil.
// path is where the command is looked for that reaches an engine where Dial needs one.
func (k *Keeper) Open(dir *session.Directory, path string) (err error) {
	if helper := k.endpoint.Helper(); helper != "" {
		if _, err := proc.LookPath(helper, path); err != nil {
			return &NoSocketError{URL: k.endpoint.URL, why: err}
		}
	}
	k.claim.Complete, k.dir = true, dir
	k.listener, k.socket, err = session.Listen(k.dir, k.o.Session, os.Getuid())
	return err
}

// Adopt makes the keeper of a session for which the starter has opened the listener, and of which nothing was served yet. was and
// dir are as for Recover. members has the session look at its members.
func Adopt(o Options, was *session.Record, dir *session.Directory, listener int, members func()) *Keeper {
	k := Recover(o, was, dir)
	if k == nil {
		return nil
	}
	k.unread, k.claim.Complete = false, true
	k.listener, k.members = listener, members
	if dir != nil {
		k.journal = dir.Journal(k.o.Session)
	}
	k.proxy = &proxy.Proxy{Dial: k.Dial, Note: k.note, Warn: k.warn, At: k.endpoint, Socket: k.socket, Attached: k.o.Attached}
	return k
}

// NoSocketError says that an engine is reached by a command only, and that there is none.
type NoSocketError struct {
	URL string
	why error
}

func (e *NoSocketError) Error() string { return "the engine has no socket here: " + e.why.Error() }

func (e *NoSocketError) Unwrap() error { return e.why }

// Listener is the socket to wait for clients on; -1 when there is none, or it is served.
func (k *Keeper) Listener() int { return k.listener }

// Record notes in the record of the session where its engine is, and where its clients connect.
func (k *Keeper) Record(r *session.Record) {
	at := &k.endpoint
	r.Engine, r.EngineContext, r.EnginePodman, r.Socket = at.URL, at.Context, at.Podman, k.socket
}

// Variables are those that a server does not get, by how they begin, and those that it gets in place of them.
func (k *Keeper) Variables(env []string) (drop, add []string) {
	return k.endpoint.Variables(env, k.socket)
}

// Serve starts the proxy: the first client has connected. base are the labels that all creates of the session have in common.
func (k *Keeper) Serve(base map[string]string) {
	k.proxy.Labels = func() map[string]string {
		out := maps.Clone(base)
		out[engine.LabelRequest] = engine.NewRequest()
		out[engine.LabelCreated] = time.Now().UTC().Format(time.RFC3339Nano)
		return out
	}
	l := engine.NewListener(k.listener)
	k.listener = -1
	k.mu.Lock()
	k.served = true
	k.mu.Unlock()
	go func() {
		if err := k.proxy.Serve(l); err != nil {
			k.warn(err)
		}
	}()
}
