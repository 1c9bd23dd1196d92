package proxy

import (
	"fmt"
	"time"

	"mcp-tether/internal/engine"
)

// restore passes on a request of `podman container restore` that makes a container, from an archive or an image of a
// checkpoint. It takes no labels of ours. What identifies the container is the id in the response, and that it was made
// after the request. (initContainerVariables in libpod of containers/podman gives it the time of its restore.)
func (l *link) restore(x *exchange, head []byte) bool {
	if l.p.Attached {
		return l.forward(x, head)
	}
	if !x.enter(&l.p.gate) {
		return l.refuse(x.request, unavailable, errEnding)
	}
	asked := engine.Note{Op: engine.OpCreate, Kind: engine.Container, Request: l.p.Labels()[engine.LabelRequest], At: time.Now()}
	l.p.Note(asked)
	x.settle, x.wantsBody = func(o outcome) { l.p.restored(asked, o) }, true
	return l.forward(x, head)
}

// restored notes the outcome of a restore.
func (p *Proxy) restored(asked engine.Note, o outcome) {
	if o.Success() {
		var report struct{ ID string }
		err := o.decode(&report)
		if err == nil && report.ID == "" {
			err = errNoID
		}
		if err != nil {
			p.Warn(fmt.Errorf("container that was restored is not known and stays: %w", err))
			return
		}
		p.madeFrom(asked, engine.Container, report.ID)
	}
	p.Note(engine.Note{Op: engine.OpRefused, Kind: engine.Container, Request: asked.Request}) // nothing more came of it
}
