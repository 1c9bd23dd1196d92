package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mcp-tether/internal/engine"
)

// playKube passes on a request of `podman kube play`, which makes pods from a manifest and takes no labels of ours. The
// names in the manifest are noted before podman is asked: if there is no outcome, they and the time tell what was made.
func (l *link) playKube(x *exchange, head []byte) bool {
	if l.p.Attached {
		return l.forward(x, head)
	}
	body := x.request.Body()
	manifest, raw, refused := l.readAhead(x.request, body) // only a part, if the files to build images from come with it
	if refused != nil {
		return l.refuse(x.request, refused.status, refused.err)
	}
	if !x.enter(&l.p.gate) {
		return l.refuse(x.request, unavailable, errEnding)
	}
	play := engine.Note{
		Op: engine.OpCreate, Kind: engine.Pod, Request: l.p.Labels()[engine.LabelRequest], Names: engine.ManifestNames(string(manifest)), At: time.Now(),
	}
	l.p.Note(play)
	x.settle, x.wantsBody = func(o outcome) { l.p.playedKube(play, o) }, true
	return l.forwardRest(x, append(head, raw...), body)
}

// playedKube notes what podman made: the pods that it reports, or if it failed those that exist since then, and its
// network. A pod that the failure names is another's: its name was taken.
func (p *Proxy) playedKube(play engine.Note, o outcome) {
	var report struct {
		Pods    []struct{ ID string }
		Message string
	}
	asked := engine.Object{Names: play.Names, At: play.At}
	err := o.decode(&report)
	if o.Success() {
		if err != nil {
			p.Warn(fmt.Errorf("pods that podman made from a manifest are known by their names only: %w", err))
			return
		}
		asked.Names = nil
	}
	for _, pod := range report.Pods {
		p.madeFrom(play, engine.Pod, pod.ID)
	}
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	cl := engine.Client{Dial: p.Dial}
	pods, podErr := cl.Pods(ctx)
	networks, netErr := cl.Networks(ctx)
	pods = append(pods, networks...)
	for i := range pods {
		x := &pods[i]
		if asked.Plays(x) && !strings.Contains(report.Message, `name "`+x.Name+`" is in use`) {
			p.madeFrom(play, x.Kind, x.ID)
		}
	}
	if err := errors.Join(podErr, netErr); err != nil {
		p.Warn(fmt.Errorf("what podman made from a manifest is known by its name only: %w", err))
		return
	}
	p.Note(engine.Note{Op: engine.OpRefused, Kind: engine.Pod, Request: play.Request}) // nothing more came of it
}

// madeFrom notes an object that podman made from a manifest.
func (p *Proxy) madeFrom(play engine.Note, kind engine.Kind, id string) {
	if id != "" {
		p.objects.add(kind, id)
		p.Note(engine.Note{Op: engine.OpCreated, Kind: kind, ID: id, At: play.At})
	}
}
