package proxy

import (
	"fmt"
	"time"

	"mcp-tether/engine"
)

// playKube passes on a request of `podman kube play`, which makes pods from a manifest and takes no labels of ours. The
// pods that podman reports are noted.
func (l *link) playKube(x *exchange, head []byte) bool {
	if l.p.Attached {
		return l.forward(x, head)
	}
	if !x.enter(&l.p.gate) {
		return l.refuse(x.request, unavailable, errEnding)
	}
	x.settle, x.wantsBody = l.p.playedKube, true
	return l.forward(x, head)
}

// playedKube notes the pods that podman made.
func (p *Proxy) playedKube(o outcome) {
	if !o.Success() {
		return
	}
	var report struct{ Pods []struct{ ID string } }
	if err := o.decode(&report); err != nil {
		p.Warn(fmt.Errorf("pods that podman made from a manifest are not known: %w", err))
		return
	}
	for _, pod := range report.Pods {
		if pod.ID != "" {
			p.objects.add(engine.Pod, pod.ID)
			p.Note(engine.Note{Op: engine.OpCreated, Kind: engine.Pod, ID: pod.ID, At: time.Now()})
		}
	}
}
