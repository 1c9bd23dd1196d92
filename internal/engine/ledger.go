package engine

import (
	"cmp"
	"slices"
	"time"
)

// Object is an object that a session created or asked for.
type Object struct {
	Kind Kind
	// ID is the engine's id; for a volume, its name. Empty while it is unknown.
	ID   string
	Name string // the name in the request, or ""
	// Request is the value of LabelRequest.
	Request string
	// At is when it was asked for.
	At time.Time
	// Names are the names in a manifest, for a request that takes no labels.
	Names []string
}

// Started is a container that the session started without having created it.
type Started struct {
	ID string
	// At is the engine's State.StartedAt if Known. Otherwise it is when the start was asked for, and the outcome is unknown.
	At    time.Time
	Known bool
	// Again is when another start of it was first asked for, after the known one. Its outcome is unknown.
	Again time.Time
	// Last is when the last of several starts was asked for whose outcomes are unknown; zero if there is no more than one.
	Last time.Time
	// Restarts is how often its restart policy had started it by then.
	Restarts int
	// Paused says that it ran already and was paused: it is to be paused again, not stopped, while it runs from that start.
	Paused bool
}

// unknown is when the first start was asked for whose outcome is unknown; zero if there is none.
func (s *Started) unknown() time.Time {
	if s.Known {
		return s.Again
	}
	return s.At
}

// mayBe reports whether a container that was started then may have been by a start whose outcome is unknown. One that was
// started long after it was asked for is another client's. So a restart that waits longer for the stop before it
// (docker restart -t 300) is missed, and so is what a restart policy does later.
func (s *Started) mayBe(then time.Time) bool {
	first := s.unknown()
	last := cmp.Or(s.Last, first)
	return !first.IsZero() && !then.Before(first.Add(-listPrecision)) && !then.After(last.Add(maxRequestDelay))
}

// holds reports whether the container still runs from that start, and not from a later one.
func (s *Started) holds(now *Info) bool {
	switch {
	case now.ID != s.ID || !now.Running && !now.Initialized:
		return false
	case s.mayBe(now.StartedAt):
		return true
	case !s.Known:
		return false
	}
	// If its restart policy started it again, it is still the session's. A start by another client sets the count to 0.
	return now.StartedAt.Equal(s.At) || now.Restarts > s.Restarts && now.StartedAt.After(s.At)
}

// Carried is an anonymous volume of a container of the session that another container was given by name. Compose does
// this when it recreates a service. To the engine it is a named volume from then on.
type Carried struct {
	Name    string
	Created string // CreatedAt, as the engine prints it
}

// Ledger is the sum of a session's notes. The zero value is empty. It is not safe for concurrent use.
type Ledger struct {
	objects []Object
	pending []Object
	started []Started
	carried []Carried
	// connected are ids of containers that the session connected to its networks, by the network's id.
	connected map[string][]string
}

// Add applies the next note. A damaged journal may lack notes, so Add believes each note by itself. An object that is
// noted as created exists, even if no note says that it was asked for.
func (l *Ledger) Add(n Note) {
	switch n.Op {
	case OpCreate:
		l.settle(n.Request)
		l.pending = append(l.pending, Object{Kind: n.Kind, Name: n.Name, Request: n.Request, At: n.At, Names: n.Names})
	case OpCreated:
		l.created(n)
	case OpRefused:
		l.settle(n.Request)
	case OpStart, OpStarted:
		l.start(n)
	case OpConnect:
		l.connect(n.ID, n.Container)
	case OpParted:
		l.part(n.ID, n.Container)
	case OpCarry:
		l.forgetCarried(n.ID)
		l.carried = append(l.carried, Carried{n.ID, n.Started})
	case OpKept:
		l.forgetStart(n.ID)
	case OpRemoved:
		l.objects = slices.DeleteFunc(l.objects, func(o Object) bool { return o.ID == n.ID })
		l.forgetStart(n.ID)
		l.forgetCarried(n.ID)
		delete(l.connected, n.ID)
	}
}

func (l *Ledger) connect(network, id string) {
	if l.connected == nil {
		l.connected = map[string][]string{}
	}
	if !slices.Contains(l.connected[network], id) {
		l.connected[network] = append(l.connected[network], id)
	}
}

func (l *Ledger) part(network, id string) {
	all := l.connected[network]
	for i, have := range all {
		if have == id {
			all[i] = all[len(all)-1]
			l.connected[network] = all[:len(all)-1]
			return
		}
	}
}

// created turns a request into an object. Nested proxies may note the same object twice, and several requests may be
// answered with one id.
func (l *Ledger) created(n Note) {
	o := Object{Kind: n.Kind, ID: n.ID, Name: n.Name, Request: n.Request, At: n.At}
	if asked, ok := l.settle(n.Request); ok {
		o.At = asked.At
		if o.Name == "" {
			o.Name = asked.Name
		}
		if o.Kind == "" {
			o.Kind = asked.Kind
		}
	}
	same := func(have Object) bool { return have.Kind == o.Kind && have.ID == o.ID && have.Request == o.Request }
	if o.ID != "" && !slices.ContainsFunc(l.objects, same) {
		l.objects = append(l.objects, o)
	}
}

// settle removes a request from the pending ones and returns it.
func (l *Ledger) settle(request string) (Object, bool) {
	i := slices.IndexFunc(l.pending, func(o Object) bool { return o.Request == request })
	if i < 0 || request == "" {
		return Object{}, false
	}
	o := l.pending[i]
	l.pending = slices.Delete(l.pending, i, i+1)
	return o, true
}

// start records a start that is asked for, or its time. If that cannot be parsed, the outcome stays unknown. Until the
// outcome is known, a container may also run from an earlier start: a restart may not have stopped it yet.
func (l *Ledger) start(n Note) {
	i := slices.IndexFunc(l.started, func(have Started) bool { return have.ID == n.ID })
	isNew := i < 0
	if isNew {
		i = len(l.started)
		l.started = append(l.started, Started{ID: n.ID, At: n.At, Restarts: n.Restarts})
	}
	s := &l.started[i]
	at, err := time.Parse(time.RFC3339Nano, n.Started)
	switch {
	case n.Op == OpStarted && err == nil:
		*s = Started{ID: n.ID, At: at, Known: true, Restarts: n.Restarts, Paused: n.Paused}
	case n.Op != OpStart || isNew:
	case s.Known && s.Again.IsZero():
		s.Again = n.At
	default:
		s.Last = n.At
	}
}

func (l *Ledger) forgetStart(id string) {
	l.started = slices.DeleteFunc(l.started, func(s Started) bool { return s.ID == id })
}

func (l *Ledger) forgetCarried(name string) {
	l.carried = slices.DeleteFunc(l.carried, func(v Carried) bool { return v.Name == name })
}

// Carried lists, in order, the anonymous volumes that are the session's although an engine takes them for named ones.
func (l *Ledger) Carried() []Carried { return slices.Clone(l.carried) }

// Objects lists, in order, the objects that were created, and that no client of the session has removed. An object may
// be gone since.
func (l *Ledger) Objects() []Object { return slices.Clone(l.objects) }

// Pending lists, in order, the creates whose outcome is unknown. Each has Kind, Request and At, and no ID.
func (l *Ledger) Pending() []Object { return slices.Clone(l.pending) }

// Started lists, in order, the containers that existed before and that the session started.
func (l *Ledger) Started() []Started { return slices.Clone(l.started) }

// HasStarted reports whether a container that existed before runs from a start of the session; resumed, whether the session
// has only resumed it.
func (l *Ledger) HasStarted(now *Info) (started, resumed bool) {
	for i := range l.started {
		if s := &l.started[i]; s.holds(now) {
			return true, s.Paused && now.StartedAt.Equal(s.At)
		}
	}
	return false, false
}

// Empty reports whether nothing has to be removed or stopped.
func (l *Ledger) Empty() bool {
	return len(l.objects)+len(l.pending)+len(l.started)+len(l.carried) == 0
}

// Clone returns a copy that later notes do not change.
func (l *Ledger) Clone() Ledger {
	c := Ledger{objects: l.Objects(), pending: l.Pending(), started: l.Started(), carried: l.Carried()}
	for network, all := range l.connected {
		for _, id := range all {
			c.connect(network, id)
		}
	}
	return c
}

// Notes returns the fewest notes that add up to the ledger.
func (l *Ledger) Notes() (notes []Note) {
	for _, o := range l.objects {
		notes = append(notes, Note{Op: OpCreated, Kind: o.Kind, Request: o.Request, ID: o.ID, Name: o.Name, At: o.At})
	}
	for network, all := range l.connected {
		for _, id := range all {
			notes = append(notes, Note{Op: OpConnect, Kind: Network, ID: network, Container: id})
		}
	}
	for _, o := range l.pending {
		notes = append(notes, Note{Op: OpCreate, Kind: o.Kind, Request: o.Request, Name: o.Name, Names: o.Names, At: o.At})
	}
	for _, v := range l.carried {
		notes = append(notes, Note{Op: OpCarry, Kind: Volume, ID: v.Name, Started: v.Created})
	}
	for _, s := range l.started {
		n := Note{Op: OpStart, Kind: Container, ID: s.ID, Restarts: s.Restarts, Paused: s.Paused, At: s.At}
		if s.Known {
			n.Op, n.Started = OpStarted, s.At.Format(time.RFC3339Nano)
		}
		notes = append(notes, n)
		for _, at := range []time.Time{s.Again, s.Last} {
			if !at.IsZero() {
				n.Op, n.At = OpStart, at
				notes = append(notes, n)
			}
		}
	}
	return notes
}
