package container

import (
	"slices"
	"time"
)

// Object is what a session created, or asked for.
type Object struct {
	Kind Kind
	// ID is the engine's; of a volume, its name. Empty while it is not known.
	ID   string
	Name string // as the request gave it, "" if it gave none
	// Request is the value of LabelRequest.
	Request string
	// At is when it was asked for.
	At time.Time
}

// Started is a container that the session did not create, but start.
type Started struct {
	ID string
	// At is the engine's State.StartedAt if Known; else when the start was asked for, and whether it came to be is open.
	At    time.Time
	Known bool
}

// Ledger is what the notes of a session add up to. The zero value is empty. It is not safe for use by several goroutines.
type Ledger struct {
	objects []Object
	pending []Object
	started []Started
}

// Add takes the next note. Notes that contradict what went before, as a torn journal may have them, are taken for what
// they say: an object that was never asked for, but created, is there.
func (l *Ledger) Add(n Note) {
	switch n.Op {
	case OpCreate:
		l.settle(n.Request)
		l.pending = append(l.pending, Object{Kind: n.Kind, Name: n.Name, Request: n.Request, At: n.At})
	case OpCreated:
		l.created(n)
	case OpRefused:
		l.settle(n.Request)
	case OpStart:
		l.forgetStart(n.ID)
		l.started = append(l.started, Started{ID: n.ID, At: n.At})
	case OpStarted:
		l.startedAt(n)
	case OpKept:
		l.forgetStart(n.ID)
	case OpRemoved:
		l.objects = slices.DeleteFunc(l.objects, func(o Object) bool { return o.ID == n.ID })
		l.forgetStart(n.ID)
	}
}

// created turns a request into an object. The same id may be noted twice, by nested proxies.
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
	known := slices.ContainsFunc(l.objects, func(have Object) bool { return have.Kind == o.Kind && have.ID == o.ID })
	if o.ID != "" && !known {
		l.objects = append(l.objects, o)
	}
}

// settle takes a request off the pending ones.
func (l *Ledger) settle(request string) (Object, bool) {
	i := slices.IndexFunc(l.pending, func(o Object) bool { return o.Request == request })
	if i < 0 || request == "" {
		return Object{}, false
	}
	o := l.pending[i]
	l.pending = slices.Delete(l.pending, i, i+1)
	return o, true
}

// startedAt makes a start known. A time that cannot be read leaves it as it was asked for.
func (l *Ledger) startedAt(n Note) {
	at, err := time.Parse(time.RFC3339Nano, n.Started)
	s := Started{ID: n.ID, At: at, Known: err == nil}
	i := slices.IndexFunc(l.started, func(have Started) bool { return have.ID == n.ID })
	switch {
	case i >= 0 && s.Known:
		l.started[i] = s
	case i < 0 && s.Known:
		l.started = append(l.started, s)
	case i < 0:
		l.started = append(l.started, Started{ID: n.ID, At: n.At})
	}
}

func (l *Ledger) forgetStart(id string) {
	l.started = slices.DeleteFunc(l.started, func(s Started) bool { return s.ID == id })
}

// Objects lists what was created and not removed by the session's own clients, in order. An object may have ended since.
func (l *Ledger) Objects() []Object { return slices.Clone(l.objects) }

// Pending lists what was asked for without a known outcome, in order. Each has Kind, Request and At, and no ID.
func (l *Ledger) Pending() []Object { return slices.Clone(l.pending) }

// Started lists the containers that were there before the session and that it started, in order.
func (l *Ledger) Started() []Started { return slices.Clone(l.started) }

// Empty reports whether there is nothing to end.
func (l *Ledger) Empty() bool { return len(l.objects)+len(l.pending)+len(l.started) == 0 }

// Clone gives a copy that later notes do not change.
func (l *Ledger) Clone() Ledger { return Ledger{l.Objects(), l.Pending(), l.Started()} }
