package reap

import (
	"fmt"
	"slices"
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

// shows is an object of an engine, as a report shows it.
func (e *knownEngine) shows(o *engine.Object, why string) display.Container {
	return display.Container{Engine: e.URL, Kind: o.Kind, ID: o.ID, Name: o.Name, Image: o.Image, State: o.State, Why: why, Result: resultListed}
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

// claim adds the containers of a dead recorded session to its finding. A directory of records may be shared with another machine, and
// the session go on there.
func (x *index) claim(f *Finding) {
	e := f.stored.At
	switch {
	case e == nil:
		return
	case e.Err != nil:
		f.unseen = fmt.Sprintf("containers of it may be left: engine %s: %v", e.URL, e.Err)
		f.Evidence = append(f.Evidence, f.unseen)
		f.Advice = "the record stays until they can be looked for; if that cannot be: mcp-tether reap --forget " + f.Session
		return
	}
	all := e.of(f.Session)
	if !slices.ContainsFunc(all, x.mayLive) {
		f.engine = e
	}
	x.sort(f, e, all)
	if n := len(f.Containers); n > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("it has left %d containers, pods and networks in engine %s", n, e.URL))
	}
}

// mayLive reports whether the session of an object lives, or is another machine's.
func (x *index) mayLive(o *engine.Object) bool {
	life, _ := x.life(o.Labels)
	machine := o.Labels[engine.LabelMachine]
	return life == proc.Alive || machine != "" && x.h.Machine != "" && machine != x.h.Machine
}

// sort adds what is proven to be a dead session's to its finding, if that may end it, and reports the rest.
func (x *index) sort(f *Finding, e *knownEngine, all []*engine.Object) {
	rest := x.suspect(f.Session, "not proven: look at it, and remove it by hand if no session needs it")
	for _, o := range all {
		owns, why := engine.Owner{Session: f.Session}.Owns(o)
		switch {
		case x.reported[o.ID] || why == "":
		case owns && f.engine != nil:
			x.add(f, e, o, why)
		default:
			if owns {
				_, why = x.life(o.Labels)
			}
			x.add(&rest, e, o, why)
		}
	}
	x.report(rest)
}

// suspect is what seems to be a dead session's. Most such are containers of an image that was committed from one of the session's
// containers, and so carries its labels.
func (x *index) suspect(session, advice string) Finding {
	f := Finding{Session: session, UID: x.h.UID, Gateway: gateway{State: proc.Unknown.String()}}
	f.doubt(advice)
	return f
}

// report reports a suspect that has containers.
func (x *index) report(f Finding) {
	if len(f.Containers) == 0 {
		return
	}
	for _, c := range f.Containers {
		if !slices.Contains(f.Evidence, c.Why) {
			f.Evidence = append(f.Evidence, c.Why)
		}
	}
	f.nameAfter(f.Containers)
	x.suspects = append(x.suspects, f)
}

// add adds an object to a finding, which is at least as old.
func (x *index) add(f *Finding, e *knownEngine, o *engine.Object, why string) {
	x.reported[o.ID] = true
	f.Containers = append(f.Containers, e.shows(o, why))
	if f.born.IsZero() || o.Created.Before(f.born) {
		f.born = o.Created
	}
}

// nameAfter names a finding after the first of some containers with a name, and with an image.
func (f *Finding) nameAfter(all []display.Container) {
	for _, c := range all {
		if f.Name == "" {
			f.Name = c.Name
		}
		if len(f.Command) == 0 && c.Image != "" {
			f.Command = []string{c.Image}
		}
	}
}

// labelled finds the containers with our label whose session is dead by what the labels say. Records have taken theirs already.
func (x *index) labelled() []Finding {
	var out []Finding
	for _, e := range x.h.Engines {
		seen := map[string]bool{}
		for i := range e.Have {
			id := e.Have[i].Labels[engine.LabelSession]
			if id == "" || seen[id] || !x.wants(id) {
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
	unknown := map[*engine.Object]string{}
	for _, o := range all {
		switch life, why := x.life(o.Labels); {
		case life == proc.Alive || x.isNewborn(o.Labels):
			return f, false
		case life != proc.Dead:
			unknown[o] = why
		}
	}
	if len(unknown) == 0 {
		f.engine = e
	}
	foreign := x.suspect(id, "its session may live elsewhere: run mcp-tether reap there, or remove it by hand if you know better")
	for _, o := range all {
		if why := unknown[o]; why != "" {
			x.add(&foreign, e, o, why)
		}
	}
	x.report(foreign)
	x.sort(&f, e, all)
	if len(f.Containers) == 0 {
		return f, false
	}
	f.nameAfter(f.Containers)
	f.Gateway = x.gatewayOf(all[0].Labels[engine.LabelGateway])
	_, why := x.life(all[0].Labels)
	f.Evidence = []string{"its label names session " + id + ", which no supervisor looks after", why}
	return f, true
}

// isNewborn reports whether a create was asked for after the pass began.
func (x *index) isNewborn(labels map[string]string) bool {
	at, err := time.Parse(time.RFC3339Nano, labels[engine.LabelCreated])
	return err == nil && !at.Before(x.h.Began)
}

// life reports whether the session that a container's labels name lives, and why that is thought. Only identities of
// this boot and pid namespace can be asked about; those of an earlier boot of this machine are dead.
func (x *index) life(labels map[string]string) (proc.Life, string) {
	const unnamed = "its labels do not say which process looks after it"
	sup, err := proc.ParseGlobalID(labels[engine.LabelSupervisor])
	switch {
	case x.supervised(labels[engine.LabelSession]):
		return proc.Alive, "its session has a supervisor"
	case err != nil || sup.Boot == "":
		return proc.Unknown, unnamed
	case sup.Boot != x.h.Boot:
		return x.earlierBoot(labels)
	case sup.Host != x.h.Host:
		return proc.Unknown, "foreign: it was created from another pid namespace of this machine"
	}
	life := x.h.Lives(sup.ID)
	if text, ok := labels[engine.LabelAnchor]; ok && life != proc.Alive {
		anchor, err := proc.ParseGlobalID(text)
		if err != nil || anchor.Host != x.h.Host {
			return proc.Unknown, unnamed
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
