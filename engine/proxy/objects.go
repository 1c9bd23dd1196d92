package proxy

import (
	"strings"
	"sync"

	"mcp-tether/engine"
)

// objects is what the proxy knows of a session's objects: which it created, which containers it started that existed
// before, and which its clients have attached to. The zero value is empty.
type objects struct {
	mu       sync.Mutex
	created  map[object]bool
	started  map[string]bool // by id
	attached map[string]bool // as in the clients' requests
}

// object identifies an object of an engine.
type object struct {
	kind engine.Kind
	id   string
}

func (o *objects) add(kind engine.Kind, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.created == nil {
		o.created = map[object]bool{}
	}
	o.created[object{kind, id}] = true
}

func (o *objects) remove(kind engine.Kind, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.created, object{kind, id})
}

// has reports whether the session created an object, by its full id.
func (o *objects) has(kind engine.Kind, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.created[object{kind, id}]
}

func (o *objects) start(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started == nil {
		o.started = map[string]bool{}
	}
	o.started[id] = true
}

// hasStarted reports whether the session started a container that existed before.
func (o *objects) hasStarted(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.started[id]
}

func (o *objects) attach(ref string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.attached == nil {
		o.attached = map[string]bool{}
	}
	o.attached[ref] = true
}

// isAttached reports whether a client has attached to a container, by its id, the beginning of its id, or its name.
func (o *objects) isAttached(to engine.Info) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref := range o.attached {
		if ref == to.Name || strings.HasPrefix(to.ID, ref) {
			return true
		}
	}
	return false
}
