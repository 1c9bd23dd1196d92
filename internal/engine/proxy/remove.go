package proxy

import "mcp-tether/internal/engine"

// remove makes a note if a client removes an object of the session by its id. A name may be another object's by now.
func (p *Proxy) remove(x *exchange, to route) {
	if !p.objects.has(to.kind, to.ref) {
		return
	}
	x.outcome = func(o outcome) {
		if o.Success() {
			p.objects.remove(to.kind, to.ref)
			p.Note(engine.Note{Op: engine.OpRemoved, Kind: to.kind, ID: to.ref})
		}
	}
}
