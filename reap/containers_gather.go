package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
)

// Why an engine was not asked.
var (
	errNoAnswer = errors.New("it did not answer in time")
	errNotAsked = errors.New("not looked at (--containers off)")
	errTooMany  = errors.New("not looked at: too many engines (for this one alone: --engine URL)")
)

// engineListing asks engines for their containers while the rest of the machine is read.
type engineListing struct {
	h     *machine
	which Engines
	byURL map[string]*knownEngine
	wait  sync.WaitGroup
}

// newEngineListing begins with the one engine that is known before any record is read. Without one in sight it costs a few
// stat calls.
func newEngineListing(h *machine, which Engines) *engineListing {
	l := &engineListing{h: h, which: which, byURL: map[string]*knownEngine{}}
	if which.None || which.OnlyRecorded {
		return l
	}
	var (
		at  engine.Endpoint
		ok  bool
		err error
	)
	if !proc.InTime(proc.FilesTime, func() { at, ok, err = engine.Resolve(which.URL, os.Getenv) }) {
		h.Unknown = append(h.Unknown, "containers are not looked at: the settings of docker: "+errNoAnswer.Error())
		return l
	}
	switch {
	case err == nil && ok:
		l.add(at)
	case err != nil && (which.URL != "" || !errors.Is(err, engine.ErrElsewhere)): // else no session has a proxy there
		h.Unknown = append(h.Unknown, "containers are not looked at: "+err.Error())
	}
	return l
}

// add asks an engine, once. One of two names is asked twice, and what it has is reported once.
func (l *engineListing) add(at engine.Endpoint) *knownEngine {
	if e := l.byURL[at.URL]; e != nil {
		return e
	}
	e := &knownEngine{Endpoint: at}
	l.byURL[at.URL] = e
	l.h.Engines = append(l.h.Engines, e)
	switch {
	case l.which.None:
		e.Err = errNotAsked
		return e
	case len(l.h.Engines) > proc.MaxEngines:
		e.Err = errTooMany
		return e
	}
	e.Client = engine.Client{Dial: at.Dial}
	l.wait.Go(e.list)
	return e
}

// list reads what the engine has of sessions. Its socket may be on a file system that does not answer.
func (e *knownEngine) list() {
	var (
		have []engine.Object
		err  error
	)
	if !proc.InTime(proc.EngineTime+time.Second, func() {
		ctx, cancel := context.WithTimeout(context.Background(), proc.EngineTime)
		defer cancel()
		have, err = e.Client.Labelled(ctx, "")
	}) {
		e.Err = errNoAnswer
		return
	}
	e.Have, e.Err = have, err
}

// recorded asks the engines that dead sessions have used.
func (l *engineListing) recorded() {
	for i := range l.h.Sessions {
		s := &l.h.Sessions[i]
		if s.Held || !s.EngineUsed {
			continue
		}
		at, err := engine.EndpointAt(s.Engine)
		if err != nil {
			s.At = &knownEngine{Endpoint: engine.Endpoint{URL: s.Engine}, Err: err}
		} else {
			s.At = l.add(at)
		}
	}
}

// finish waits for the answers.
func (l *engineListing) finish() {
	l.wait.Wait()
	if len(l.h.Engines) > 0 {
		l.h.Machine = engine.MachineID()
	}
	for _, e := range l.h.Engines {
		// A default socket behind which no process listens is no engine.
		if e.Err != nil && (e.Named || !errors.Is(e.Err, engine.ErrUnreachable)) && !errors.Is(e.Err, errNotAsked) {
			l.h.Unknown = append(l.h.Unknown, fmt.Sprintf("containers of engine %s are not looked at: %v", e.URL, e.Err))
		}
	}
}
