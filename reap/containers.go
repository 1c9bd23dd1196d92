package reap

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
)

// knownEngine is a container engine, and what it has.
type knownEngine struct {
	engine.Endpoint
	// Client is for further questions, which the rules never ask.
	Client engine.Client
	// Have are its containers, pods and networks with a session's label. Err says why they are not known.
	Have []engine.Object
	Err  error
}

func found(e *knownEngine, o *engine.Object, why string) display.Container {
	return display.Container{Engine: e.URL, Kind: o.Kind, ID: o.ID, Name: o.Name, Image: o.Image, State: o.State, Why: why, Result: "listed"}
}

// ending is what a finding has to end in an engine. The engine is asked again until nothing is left, and for what it may
// still be creating for a session that was killed.
type ending struct {
	engine *knownEngine
	owner  engine.Owner
}

// of are the objects with the label of a session.
func (e *knownEngine) of(session string) (all []*engine.Object) {
	for i := range e.Have {
		if e.Have[i].Labels[engine.LabelSession] == session {
			all = append(all, &e.Have[i])
		}
	}
	return all
}

// claim adds the containers of a dead recorded session to its finding.
func (x *index) claim(f *Finding, s *storedSession) {
	e := s.At
	if e == nil {
		return
	}
	if e.Err != nil {
		f.explainLeft(s)
		return
	}
	all := e.of(s.ID)
	if !slices.ContainsFunc(all, func(o *engine.Object) bool { return !x.endable(o) }) {
		f.ending = &ending{e, engine.Owner{Session: s.ID}}
	}
	x.sort(f, e, s.ID, all)
	if len(f.Containers) > 0 {
		f.Evidence = append(f.Evidence, count(f.Containers)+" of it left in engine "+e.URL)
	}
}

// sort adds what is proven to be a dead session's to its finding, if that may end it, and reports the rest.
func (x *index) sort(f *Finding, e *knownEngine, id string, all []*engine.Object) {
	var doubtful []doubt
	for _, o := range all {
		owns, why := engine.Owner{Session: id}.Owns(o)
		switch {
		case x.reported[o.ID]:
		case owns && f.ending != nil:
			x.reported[o.ID] = true
			f.Containers = append(f.Containers, found(e, o, why))
			f.bear(o)
		case why != "":
			if _, lives := x.life(o.Labels); owns {
				why = lives
			}
			doubtful = append(doubtful, doubt{o, why})
		}
	}
	x.doubtful(e, id, notProven, doubtful)
}

// explainLeft says why containers of a dead recorded session may be left: then its record stays.
func (f *Finding) explainLeft(s *storedSession) {
	f.unseen = fmt.Sprintf("containers of it may be left: engine %s: %v", s.At.URL, s.At.Err)
	f.Evidence = append(f.Evidence, f.unseen)
	f.Advice = "the record stays until they can be looked for; if that cannot be: mcp-tether reap --forget " + s.ID
}

// count says how many of each kind there are: "2 containers, 1 network".
func count(all []display.Container) string {
	var out []string
	for _, kind := range []engine.Kind{engine.Container, engine.Pod, engine.Network} {
		n := 0
		for _, c := range all {
			if c.Kind == kind {
				n++
			}
		}
		switch n {
		case 0:
		case 1:
			out = append(out, "1 "+string(kind))
		default:
			out = append(out, fmt.Sprintf("%d %ss", n, kind))
		}
	}
	return strings.Join(out, ", ")
}

// endable reports whether what carries the label of a recorded session may be ended. A directory of records may be shared with
// another machine.
func (x *index) endable(o *engine.Object) bool {
	life, _ := x.life(o.Labels)
	machine := o.Labels[engine.LabelMachine]
	elsewhere := machine != "" && x.h.Machine != "" && machine != x.h.Machine
	return life != proc.Alive && !elsewhere
}

// doubt is an object that seems to be a dead session's, and what is missing from the proof.
type doubt struct {
	*engine.Object
	why string
}

// What is to be done about a doubt.
const (
	notProven     = "not proven: look at it, and remove it by hand if no session needs it"
	foreignAdvice = "its session may live elsewhere: run mcp-tether reap there, or remove it by hand if you know better"
)

// doubtful reports what seems to be a dead session's. Most are containers of an image that was committed from one of the
// session's containers, and so carries its labels.
func (x *index) doubtful(e *knownEngine, id, advice string, all []doubt) {
	f := Finding{Class: classSuspect, Session: id, UID: x.h.UID, Gateway: gateway{State: proc.Unknown.String()}, Advice: advice}
	for _, d := range all {
		x.reported[d.ID] = true
		f.Containers = append(f.Containers, found(e, d.Object, d.why))
		f.nameAfter(d.Object)
		f.bear(d.Object)
		if !slices.Contains(f.Evidence, d.why) {
			f.Evidence = append(f.Evidence, d.why)
		}
	}
	if len(f.Containers) > 0 {
		x.suspects = append(x.suspects, f)
	}
}

// nameAfter names a finding after its first container.
func (f *Finding) nameAfter(o *engine.Object) {
	if f.Name == "" {
		f.Name = o.Name
	}
	if len(f.Command) == 0 && o.Image != "" {
		f.Command = []string{o.Image}
	}
}

// bear makes a finding at least as old as an object of it.
func (f *Finding) bear(o *engine.Object) {
	if f.born.IsZero() || o.Created.Before(f.born) {
		f.born = o.Created
	}
}

// labelled: containers with our label whose session is dead by what the labels say. Records have taken theirs already.
func (x *index) labelled(r Rules) []Finding {
	var out []Finding
	for _, e := range x.h.Engines {
		seen := map[string]bool{}
		for i := range e.Have {
			id := e.Have[i].Labels[engine.LabelSession]
			if id == "" || seen[id] || r.Session != "" && r.Session != id {
				continue
			}
			seen[id] = true
			if f, ok := x.labelledSession(e, id); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

// labelledSession judges what carries the label of one session. If the labels disagree, nothing is proven.
func (x *index) labelledSession(e *knownEngine, id string) (Finding, bool) {
	f := Finding{Class: classContainer, Session: id, UID: x.h.UID}
	all := slices.DeleteFunc(e.of(id), func(o *engine.Object) bool { return o.IsKept() || x.reported[o.ID] })
	var unknown []doubt
	for _, o := range all {
		switch life, why := x.life(o.Labels); {
		case life == proc.Alive || x.newborn(o.Labels):
			return f, false
		case life != proc.Dead:
			unknown = append(unknown, doubt{o, why})
		}
	}
	if len(unknown) > 0 {
		x.doubtful(e, id, foreignAdvice, unknown)
	} else {
		f.ending = &ending{e, engine.Owner{Session: id}}
	}
	x.sort(&f, e, id, all)
	if len(f.Containers) == 0 {
		return f, false
	}
	for _, o := range all {
		f.nameAfter(o)
	}
	f.Gateway = x.labelledGateway(all[0].Labels)
	_, why := x.life(all[0].Labels)
	f.Evidence = []string{"its label names session " + id + ", which no supervisor looks after", why}
	return f, true
}

// newborn reports whether a create was asked for after the pass began.
func (x *index) newborn(labels map[string]string) bool {
	at, err := time.Parse(time.RFC3339Nano, labels[engine.LabelCreated])
	return err == nil && !at.Before(x.h.Began)
}

// life reports whether the session that a container's labels name lives, and why that is thought. Only identities of
// this boot and pid namespace can be asked about; those of an earlier boot of this machine are dead.
func (x *index) life(labels map[string]string) (proc.Life, string) {
	sup, err := proc.ParseGlobalID(labels[engine.LabelSupervisor])
	switch {
	case x.supervised[labels[engine.LabelSession]]:
		return proc.Alive, "its session has a supervisor"
	case err != nil || sup.Boot == "":
		return proc.Unknown, "its labels do not say which process looks after it"
	case sup.Boot != x.h.Boot:
		return x.earlierBoot(labels)
	case sup.Host != x.h.Host:
		return proc.Unknown, "foreign: it was created from another pid namespace of this machine"
	}
	life := x.h.Lives(sup.ID)
	if text, ok := labels[engine.LabelAnchor]; ok && life != proc.Alive {
		anchor, err := proc.ParseGlobalID(text)
		if err != nil || anchor.Host != x.h.Host {
			return proc.Unknown, "its labels do not say which process looks after it"
		}
		if anchors := x.h.Lives(anchor.ID); anchors != proc.Dead {
			life = anchors
		}
	}
	if life == proc.Dead {
		return proc.Dead, fmt.Sprintf("its supervisor (pid %d) is dead", sup.PID)
	}
	return life, fmt.Sprintf("its supervisor (pid %d) or anchor is %s", sup.PID, life)
}

// earlierBoot judges labels with another boot id. A machine id may have been copied with the machine, so the labels must
// be older than this boot as well.
func (x *index) earlierBoot(labels map[string]string) (proc.Life, string) {
	if labels[engine.LabelMachine] == "" || labels[engine.LabelMachine] != x.h.Machine {
		return proc.Unknown, "foreign: it was created from another machine"
	}
	at, err := time.Parse(time.RFC3339Nano, labels[engine.LabelCreated])
	if err != nil || !at.Before(x.h.booted()) {
		return proc.Unknown, "foreign: it was created from another machine with the same machine id"
	}
	return proc.Dead, "it was created in an earlier boot of this machine: its session ended then"
}

// labelledGateway is the gateway that labels name.
func (x *index) labelledGateway(labels map[string]string) gateway {
	g, err := proc.ParseGlobalID(labels[engine.LabelGateway])
	switch {
	case err != nil || g.Boot == "":
		return gateway{State: proc.Unknown.String()}
	case g.Boot != x.h.Boot:
		return gateway{ID: g.ID, State: proc.Dead.String()}
	case g.Host != x.h.Host:
		return gateway{ID: g.ID, State: proc.Unknown.String()}
	}
	return x.gateway(g.ID)
}
