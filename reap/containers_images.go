package reap

import (
	"fmt"
	"time"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
)

// unlabelled finds containers without our label that run the image of a configured server. It reports them if they are
// more than the clients that run the image. Which of them no client uses cannot be known, so they are only reported.
func (x *index) unlabelled(r Rules) []Finding {
	if r.Image == nil {
		return nil
	}
	var (
		out     []Finding
		running map[string]*imageClients
	)
	for _, e := range x.h.Engines {
		// The clients of an engine elsewhere may be elsewhere, too.
		if e.Err != nil || e.Socket == "" {
			continue
		}
		if running == nil {
			running = x.imageClients()
		}
		out = append(out, x.unlabelledIn(e, running, r)...)
	}
	return out
}

// imageClients counts the clients that run one image.
type imageClients struct {
	// free are those outside of any session, tethered those within one.
	free, tethered int
}

func (x *index) imageClients() map[string]*imageClients {
	out := map[string]*imageClients{}
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		image, ok := clients.RunImage(p.Args)
		if !ok || p.Dead() {
			continue
		}
		c := out[image]
		if c == nil {
			c = &imageClients{}
			out[image] = c
		}
		if x.tethered(p) {
			c.tethered++
		} else {
			c.free++
		}
	}
	return out
}

// imageContainers is what an engine has of one image.
type imageContainers struct {
	name     string
	plain    []engine.Info
	labelled int
}

func (x *index) unlabelledIn(e *knownEngine, running map[string]*imageClients, r Rules) []Finding {
	byImage := map[string]*imageContainers{}
	var order []string
	for _, i := range e.Have {
		if i.Kind != engine.Container || !i.Running || i.Image == "" {
			continue
		}
		image := clients.CanonicalImage(i.Image)
		c := byImage[image]
		if c == nil {
			name, ok := r.Image(x.h.UID, image)
			if !ok {
				continue
			}
			c = &imageContainers{name: name}
			byImage[image] = c
			order = append(order, image)
		}
		switch {
		case i.Labels[engine.LabelSession] != "":
			c.labelled++
		case !x.reported[i.ID] && i.Created.Before(x.h.Began.Add(-settleContainer)):
			c.plain = append(c.plain, i)
		}
	}
	var out []Finding
	for _, image := range order {
		if f, ok := x.unlabelledOf(e, image, byImage[image], running[image]); ok {
			out = append(out, f)
		}
	}
	return out
}

// settleContainer is how old a container must be: a younger one may have a client that the scan of the processes did not
// see. In a list, engines cut the time of creation to seconds.
const settleContainer = time.Second

func (x *index) unlabelledOf(e *knownEngine, image string, c *imageContainers, running *imageClients) (Finding, bool) {
	served := 0
	if running != nil {
		// The clients within sessions run the labelled containers, as far as there are any.
		served = running.free + max(0, running.tethered-c.labelled)
	}
	if len(c.plain) <= served {
		return Finding{}, false
	}
	f := Finding{Class: classSuspect, UID: x.h.UID, Count: len(c.plain) - served, Gateway: gateway{State: proc.Unknown.String()}}
	for _, i := range c.plain {
		x.suspect(&f, e, &i, "without our label")
	}
	f.Name = c.name
	f.Evidence = []string{fmt.Sprintf("%d running containers without our label of image %s, from which server %q is started, and %d clients that run it",
		len(c.plain), image, c.name, served)}
	f.Advice = "not proven: find out which of them no client uses, and remove those by hand"
	return f, true
}
