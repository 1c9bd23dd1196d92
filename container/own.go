package container

import (
	"strings"
	"sync"
)

// own is what the proxy remembers of a session: what it created, which containers it started that were there before, and
// which it has attached to. The zero value is empty.
type own struct {
	mu       sync.Mutex
	created  map[object]bool
	started  map[string]bool // by id
	attached map[string]bool // as the clients called them
}

// object names one of an engine's objects.
type object struct {
	kind Kind
	id   string
}

func (o *own) add(kind Kind, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.created == nil {
		o.created = map[object]bool{}
	}
	o.created[object{kind, id}] = true
}

func (o *own) remove(kind Kind, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.created, object{kind, id})
}

// has tells whether the session created an object, by its whole id.
func (o *own) has(kind Kind, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.created[object{kind, id}]
}

func (o *own) start(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started == nil {
		o.started = map[string]bool{}
	}
	o.started[id] = true
}

// hasStarted tells whether the session started a container that was there before.
func (o *own) hasStarted(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.started[id]
}

func (o *own) attach(ref string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.attached == nil {
		o.attached = map[string]bool{}
	}
	o.attached[ref] = true
}

// isAttached tells whether a client has attached to a container, by its id, the beginning of it, or its name.
func (o *own) isAttached(to Info) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref := range o.attached {
		if ref == to.Name || strings.HasPrefix(to.ID, ref) {
			return true
		}
	}
	return false
}
