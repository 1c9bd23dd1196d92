package keeper

import (
	"maps"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
)

// Options are those of a Keeper.
type Options struct {
	// URL is that of the engine, "" for the one that the docker command would use.
	URL string
	// Session is the session's id.
	Session string
	// Limit is what an engine may take to remove containers, beside their grace period.
	Limit time.Duration
	Log   zerolog.Logger
}

// Keeper keeps track of what one session creates in a container engine.
type Keeper struct {
	endpoint engine.Endpoint
	o        Options
	proxy    *proxy // nil in the starter, and in the anchor
	listener int    // -1 when there is none, or the proxy has it
	socket   string
	// used says that the session may have made something.
	used bool
	// outcome receives the result of the removal; nil until it has begun.
	outcome chan Removal

	made made

	mu     sync.Mutex // of all below, which the goroutines of the clients share
	warned string     // the last warning
}

// Find makes the keeper for the engine that is in sight now; nil if there is none.
func Find(o Options) (*Keeper, error) {
	at, found, err := engine.Resolve(o.URL, os.Getenv)
	if err != nil || !found {
		return nil, err
	}
	return &Keeper{endpoint: behind(at), o: o, listener: -1, made: made{news: -1}}, nil
}

// behind is the engine behind the proxy of a session around this one. That session has not to know what this one makes.
func behind(at engine.Endpoint) engine.Endpoint {
	id, ok := session.SocketID(at.Socket)
	if !ok {
		return at
	}
	dirs := session.OpenAll(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	defer session.CloseAll(dirs)
	for _, dir := range dirs {
		outer, err := dir.Read(id)
		if err != nil || outer.Socket != at.Socket {
			continue
		}
		if e, err := engine.EndpointAt(outer.Engine); err == nil {
			return e
		}
	}
	return at
}

// Recover makes the keeper of a session whose supervisor was killed: the labels must tell what it has made. That is in the
// engine of the record: another context may be the current one. The result is nil when there is nothing to look for.
func Recover(o Options, was *session.Record) *Keeper {
	at, err := engine.EndpointAt(was.Engine)
	if err != nil || was.Socket == "" {
		return nil
	}
	return &Keeper{endpoint: at, o: o, listener: -1, socket: was.Socket, used: was.EngineUsed, made: made{news: -1}}
}

// Open listens for clients. The starter does, and the supervisor will serve them (Adopt).
func (k *Keeper) Open() (err error) {
	k.listener, k.socket, err = session.Listen(k.o.Session, os.Getuid(), os.Getenv("XDG_STATE_HOME"), os.Getenv("HOME"))
	return err
}

// Adopt makes the keeper of a session for which the starter has opened the listener, and of which nothing was served yet.
func Adopt(o Options, was *session.Record, listener int) *Keeper {
	k := Recover(o, was)
	if k == nil {
		return nil
	}
	k.listener, k.made.ids = listener, map[string]bool{}
	k.proxy = &proxy{Dial: k.endpoint.Dial, Made: k.made.note, Warn: k.warn, At: k.endpoint, Socket: k.socket}
	return k
}

// Listener is the socket to wait for clients on; -1 when there is none, or it is served.
func (k *Keeper) Listener() int { return k.listener }

// Record notes in the record of the session where its engine is, and where its clients connect.
func (k *Keeper) Record(r *session.Record) { r.Engine, r.Socket = k.endpoint.URL, k.socket }

// Variables are those that a server does not get, by how they begin, and those that it gets in place of them.
func (k *Keeper) Variables(env []string) (drop, add []string) {
	return k.endpoint.Variables(env, k.socket)
}

// Serve starts the proxy: the first client has connected. base are the labels that all creates of the session have in common.
func (k *Keeper) Serve(base map[string]string) {
	k.proxy.Labels = func() map[string]string {
		out := maps.Clone(base)
		out[engine.LabelCreated] = time.Now().UTC().Format(time.RFC3339Nano)
		return out
	}
	k.made.open()
	l := engine.NewListener(k.listener)
	k.listener, k.used = -1, true
	go k.proxy.Serve(l)
}

// warn logs an error, but not the same one twice in a row: clients try again.
func (k *Keeper) warn(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.warned != err.Error() {
		k.warned = err.Error()
		k.o.Log.Warn().Err(err).Msg("container engine")
	}
}
