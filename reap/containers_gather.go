package reap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/kernel"
	"mcp-tether/internal/session"
)

// Bounds of what engines are asked.
const (
	// engineTimeout is how long an engine has to answer.
	engineTimeout = 3 * time.Second
	// maxEngines bounds how many are asked: other users' records may name any number.
	maxEngines = 16
)

// Why an engine was not asked.
var (
	errNoAnswer  = errors.New("it did not answer in time")
	errNotAsked  = errors.New("not looked at (--no-containers)")
	errNotSocket = errors.New("another user's record names it, and it is no unix socket")
	errTooMany   = errors.New("not looked at: too many engines")
)

// engineListing asks engines for their containers while the rest of the machine is read.
type engineListing struct {
	h     *machine
	reach Reach
	// first is the engine of the docker command, nil when there is none in sight.
	first *knownEngine
	byKey map[string]*knownEngine
	err   error // of resolving the first
	// slow says that the path of an engine did not answer.
	slow bool
	wait sync.WaitGroup
	ctx  context.Context
	stop context.CancelFunc
}

// newEngineListing begins with the one engine that is known before any record is read. Without one in sight it costs a few
// stat calls.
func newEngineListing(h *machine, reach Reach) *engineListing {
	l := &engineListing{h: h, reach: reach, byKey: map[string]*knownEngine{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if reach.None || reach.Recorded {
		return l
	}
	var (
		at  engine.Endpoint
		ok  bool
		err error
	)
	if !kernel.InTime(fileTimeout, func() { at, ok, err = engine.Resolve(reach.Engine, os.Getenv) }) {
		l.err = fmt.Errorf("containers are not looked at: the settings of docker: %w", errNoAnswer)
		return l
	}
	if err != nil {
		l.err = fmt.Errorf("containers are not looked at: %w", err)
	}
	if ok && err == nil && (at.Helper() == "" || !reach.Commandless) {
		l.first = l.add(at)
	}
	return l
}

func (l *engineListing) close() { l.stop() }

// add asks an engine, once.
func (l *engineListing) add(at engine.Endpoint) *knownEngine {
	k := l.key(at)
	if e := l.byKey[k]; e != nil {
		return e
	}
	e := &knownEngine{Endpoint: at}
	l.byKey[k] = e
	l.h.Engines = append(l.h.Engines, e)
	switch {
	case l.reach.None:
		e.Err = errNotAsked
		return e
	case len(l.h.Engines) > maxEngines:
		e.Err = errTooMany
		return e
	}
	e.Client = engine.Client{Dial: func() (net.Conn, error) { return at.Dial(engineTimeout, nil) }}
	e.ImageLabels = func(id string) (map[string]string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
		defer cancel()
		return e.Client.ImageLabels(ctx, id)
	}
	l.wait.Go(func() { e.listInTime(l.ctx) })
	return e
}

// listInTime is list, for an engine whose socket may be on a file system that does not answer.
func (e *knownEngine) listInTime(ctx context.Context) {
	asked := knownEngine{Client: e.Client}
	if kernel.InTime(engineTimeout+time.Second, func() { asked.list(ctx) }) {
		e.Have, e.Err = asked.Have, asked.Err
		return
	}
	e.Err = errNoAnswer
}

// key is the same for two ways to name one engine. After a path that did not answer, paths are taken as they are.
func (l *engineListing) key(at engine.Endpoint) string {
	if at.Socket == "" {
		k := at.URL + "\x00" + at.Context
		if at.Podman {
			k += "\x00podman"
		}
		return k
	}
	var (
		socket string
		err    error
	)
	if l.slow || !kernel.InTime(fileTimeout, func() { socket, err = filepath.EvalSymlinks(at.Socket) }) {
		l.slow = true
		return "unix://" + at.Socket
	}
	if err != nil {
		return "unix://" + at.Socket
	}
	return "unix://" + socket
}

// list reads what the engine has.
func (e *knownEngine) list(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, engineTimeout)
	defer cancel()
	for i, ask := range []func(context.Context) ([]engine.Info, error){e.Client.Containers, e.Client.Networks, e.Client.Pods} {
		have, err := ask(ctx)
		if i > 0 && errors.Is(err, engine.ErrForbidden) {
			continue // a filter in front of the engine lets nothing of that kind pass
		}
		if err != nil {
			e.Err = err
			return
		}
		e.Have = append(e.Have, have...)
	}
}

// recorded asks the engines of dead sessions.
func (l *engineListing) recorded() {
	for i := range l.h.Sessions {
		s := &l.h.Sessions[i]
		if s.Held || !s.Lease {
			continue
		}
		at, err := l.engineOf(s)
		switch {
		case err != nil:
			s.At = &knownEngine{Endpoint: engine.Endpoint{URL: s.Record.Engine}, Err: err}
		case at.URL != "":
			s.At = l.add(at)
		case !s.Ledger.Empty():
			s.At = l.first
		}
	}
}

// engineOf is the engine of a dead session, without URL when it has none. That of a session within a session is the outer one's
// proxy, which has most likely ended with it: then it was the docker command's.
func (l *engineListing) engineOf(s *storedSession) (engine.Endpoint, error) {
	if s.Record.Engine == "" {
		return engine.Endpoint{}, nil
	}
	at, err := engine.EndpointAt(s.Record.Engine, s.EngineContext, s.EnginePodman)
	if err == nil && l.first != nil && isProxySocket(at.Socket) && !isProxySocket(l.first.Socket) {
		return l.first.Endpoint, nil
	}
	if err == nil && at.Socket == "" && s.Owner != l.h.UID {
		err = errNotSocket
	}
	return at, err
}

// isProxySocket reports whether a path is that of a session's proxy.
func isProxySocket(socket string) bool {
	_, ok := session.SocketID(socket)
	return ok
}

// finish waits for the answers.
func (l *engineListing) finish() {
	l.wait.Wait()
	if len(l.h.Engines) > 0 {
		l.h.Machine = engine.MachineID()
	}
	if l.err != nil {
		l.h.Unknown = append(l.h.Unknown, l.err.Error())
	}
	for _, e := range l.h.Engines {
		// A default socket behind which no process listens is no engine.
		if e.Err != nil && (e.Named || !errors.Is(e.Err, engine.ErrUnreachable)) && !errors.Is(e.Err, errNotAsked) {
			l.h.Unknown = append(l.h.Unknown, fmt.Sprintf("containers of engine %s are not looked at: %v", e.URL, e.Err))
		}
	}
}

// readLedger reads what a session noted. Notes that cannot be read may name containers.
func (s *storedSession) readLedger() {
	notes, err := s.Dir.Notes(s.ID)
	for _, n := range notes {
		s.Ledger.Add(n)
	}
	s.Torn = err
}
