package proxy

import (
	"sync"

	"mcp-tether/internal/engine"
)

// objects are those that a session created. The zero value is empty.
type objects struct{ created sync.Map }

// object identifies an object of an engine.
type object struct {
	kind engine.Kind
	id   string
}

func (o *objects) add(kind engine.Kind, id string)    { o.created.Store(object{kind, id}, nil) }
func (o *objects) remove(kind engine.Kind, id string) { o.created.Delete(object{kind, id}) }

// has reports whether the session created an object, by its full id.
func (o *objects) has(kind engine.Kind, id string) bool {
	_, ok := o.created.Load(object{kind, id})
	return ok
}
