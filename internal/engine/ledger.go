package engine

import (
	"slices"
	"time"
)

// Object is an object that a session created or asked for.
type Object struct {
	Kind Kind
	// ID is the engine's id. Empty while it is unknown.
	ID   string
	Name string // the name in the request, or ""
	// Request is the value of LabelRequest.
	Request string
	// At is when it was asked for.
	At time.Time
}

// Ledger is the sum of a session's notes. The zero value is empty. It is not safe for concurrent use.
type Ledger struct {
	objects []Object
	pending []Object
}

// Add applies the next note. A damaged journal may lack notes, so Add believes each note by itself. An object that is
// noted as created exists, even if no note says that it was asked for.
func (l *Ledger) Add(n Note) {
	switch n.Op {
	case OpCreate:
		l.answered(n.Request)
		l.pending = append(l.pending, Object{Kind: n.Kind, Name: n.Name, Request: n.Request, At: n.At})
	case OpCreated:
		l.created(n)
	case OpRefused:
		l.answered(n.Request)
	case OpRemoved:
		l.objects = slices.DeleteFunc(l.objects, func(o Object) bool { return o.ID == n.ID })
	}
}

// created turns a request into an object. Nested proxies may note the same object twice, and several requests may be
// answered with one id.
func (l *Ledger) created(n Note) {
	o := Object{Kind: n.Kind, ID: n.ID, Name: n.Name, Request: n.Request, At: n.At}
	if asked, ok := l.answered(n.Request); ok {
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

// answered removes a request from the pending ones and returns it.
func (l *Ledger) answered(request string) (Object, bool) {
	i := slices.IndexFunc(l.pending, func(o Object) bool { return o.Request == request })
	if i < 0 || request == "" {
		return Object{}, false
	}
	o := l.pending[i]
	l.pending = slices.Delete(l.pending, i, i+1)
	return o, true
}

// Objects lists, in order, the objects that were created, and that no client of the session has removed. An object may
// be gone since.
func (l *Ledger) Objects() []Object { return slices.Clone(l.objects) }

// Pending lists, in order, the creates whose outcome is unknown. Each has Kind, Request and At, and no ID.
func (l *Ledger) Pending() []Object { return slices.Clone(l.pending) }

// Empty reports whether nothing has to be removed.
func (l *Ledger) Empty() bool { return len(l.objects)+len(l.pending) == 0 }

// Clone returns a copy that later notes do not change.
func (l *Ledger) Clone() Ledger { return Ledger{objects: l.Objects(), pending: l.Pending()} }

// Notes returns the fewest notes that add up to the ledger.
func (l *Ledger) Notes() (notes []Note) {
	for _, o := range l.objects {
		notes = append(notes, Note{Op: OpCreated, Kind: o.Kind, Request: o.Request, ID: o.ID, Name: o.Name, At: o.At})
	}
	for _, o := range l.pending {
		notes = append(notes, Note{Op: OpCreate, Kind: o.Kind, Request: o.Request, Name: o.Name, At: o.At})
	}
	return notes
}
