package proxy

import (
	"strings"
	"sync"

	"mcp-tether/internal/engine"
)

// objects is what the proxy knows of a session's objects. The zero value is empty.
type objects struct {
	created  sync.Map // object: the session created it
	attached sync.Map // container that a client has attached to, as in the request
	others   sync.Map // name of a volume that a create named, and that is not the session's

	mu     sync.Mutex
	asking sync.Map      // by the id of a container, while starts of it are under way
	starts engine.Ledger // of containers that existed before
}

// asking are starts of one container that are under way at the same time.
type asking struct {
	now     int  // how many have no outcome yet
	several bool // there were more
	success bool // one has succeeded
}

// object identifies an object of an engine.
type object struct {
	kind engine.Kind
	id   string
}

func (o *objects) add(kind engine.Kind, id string)    { o.created.Store(object{kind, id}, nil) }
func (o *objects) remove(kind engine.Kind, id string) { o.created.Delete(object{kind, id}) }
func (o *objects) attach(ref string)                  { o.attached.Store(ref, nil) }

// has reports whether the session created an object, by its full id.
func (o *objects) has(kind engine.Kind, id string) bool {
	_, ok := o.created.Load(object{kind, id})
	return ok
}

// start remembers a start of a container that existed before, or its outcome.
func (o *objects) start(n *engine.Note) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starts.Add(*n)
}

// hasStarted reports whether a container that existed before runs because the session started it; resumed, because the
// session resumed it. Others may have started it since.
func (o *objects) hasStarted(c *engine.Info) (started, resumed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.starts.HasStarted(c)
}

// ask counts a start that is noted.
func (o *objects) ask(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	have, _ := o.asking.LoadOrStore(id, &asking{})
	if a, ok := have.(*asking); ok {
		a.several = a.now > 0
		a.now++
	}
}

// settle counts the outcome of a start. It reports whether the container may run because of another start that was under
// way at the same time.
func (o *objects) settle(id string, success bool) (shared bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	have, _ := o.asking.Load(id)
	a, ok := have.(*asking)
	if !ok {
		return false
	}
	a.now--
	a.success = a.success || success
	if a.now == 0 {
		o.asking.Delete(id)
	}
	return a.several && (a.success || a.now > 0)
}

// isAttached reports whether a client has attached to a container, by its id, the beginning of its id, or its name.
func (o *objects) isAttached(to *engine.Info) (attached bool) {
	o.attached.Range(func(key, _ any) bool {
		ref, ok := key.(string)
		attached = ok && (ref == to.Name || strings.HasPrefix(to.ID, ref))
		return !attached
	})
	return attached
}
