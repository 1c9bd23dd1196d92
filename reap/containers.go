package reap

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// knownEngine is a container engine, and what it has.
type knownEngine struct {
	engine.Endpoint
	// Client is for further questions, which the rules never ask.
	Client engine.Client
	// Have are its containers, pods and networks. Err says why they are not known.
	Have []engine.Info
	Err  error
	// ImageLabels is asked only about the images of candidates.
	ImageLabels engine.ImageLabels
}

func found(e *knownEngine, i *engine.Info, why string) describe.Container {
	return describe.Container{Engine: e.URL, Kind: i.Kind, ID: i.ID, Name: i.Name, Image: i.Image, State: i.State, Why: why, Result: "listed"}
}

// ending is what a finding has to end in an engine.
type ending struct {
	engine *knownEngine
	// claim is that of our own record. Its End asks the engine again until nothing is left, and waits for what the session
	// had asked for when it was killed. nil to end the targets and nothing else.
	claim   *engine.Claim
	targets []engine.Target
}

// claim adds the containers of a dead recorded session to its finding.
func (x *index) claim(f *Finding, s *storedSession) {
	e := s.At
	asked := e != nil && e.Err == nil
	// What is torn lacks some lines. What cannot be read otherwise may lack all of them.
	lacks := s.Torn != nil && (!asked || !errors.Is(s.Torn, session.ErrTorn))
	if lacks || !asked && !s.Ledger.Empty() {
		f.explainLeft(s)
	}
	if !asked {
		return
	}
	c := engine.Claim{Session: s.ID, Ledger: s.Ledger.Clone(), TrustIDs: s.Owner == x.h.UID}
	mine, doubtful := c.Targets(e.Have, e.ImageLabels)
	f.ending = &ending{engine: e}
	for _, t := range mine {
		if x.reported[t.ID] || !x.endable(&t, &c) {
			// Take it off the ledger, whichever of the two proofs it rests on. The end asks again: a label is no proof then.
			c.Complete = true
			c.Ledger.Add(engine.Note{Op: engine.OpRemoved, ID: t.ID})
			c.Ledger.Add(engine.Note{Op: engine.OpRefused, Request: t.Labels[engine.LabelRequest]})
			continue
		}
		x.add(f, e, t)
	}
	for _, t := range f.ending.targets {
		if c.Complete {
			c.Ledger.Add(engine.Note{Op: engine.OpCreated, Kind: t.Kind, ID: t.ID, Request: t.Labels[engine.LabelRequest]})
		}
	}
	if c.TrustIDs {
		f.ending.claim = &c
	}
	if len(f.Containers) > 0 {
		f.Evidence = append(f.Evidence, count(f.Containers)+" of it left in engine "+e.URL)
	}
	x.doubtful(e, s.ID, doubtful)
}

// explainLeft says why containers of a dead recorded session may be left: then its record stays.
func (f *Finding) explainLeft(s *storedSession) {
	why := s.Torn
	if s.At == nil {
		why = errNoEngine
	} else if s.At.Err != nil {
		why = fmt.Errorf("engine %s: %w", s.At.URL, s.At.Err)
	}
	f.unseen = "containers of it may be left: " + why.Error()
	f.Evidence = append(f.Evidence, f.unseen)
	f.Advice = "the record stays until they can be looked for; if that cannot be: mcp-tether reap --forget " + s.ID
}

// errNoEngine says that a session's journal is there without its record.
var errNoEngine = errors.New("its engine is not known: give its URL (--engine)")

// count says how many of each kind there are: "2 containers, 1 network".
func count(all []describe.Container) string {
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

// endable reports whether a target of a record may be ended. What a wrapper further down has labelled belongs to that
// wrapper as long as it lives. It has lost its gateway, and ends its own containers. Another user's record does not say
// whose a container is, so there the label itself must prove that its session is dead. A directory of records may be
// shared with another machine.
func (x *index) endable(t *engine.Target, c *engine.Claim) bool {
	life, _ := x.life(t.Labels)
	if !c.TrustIDs {
		return life == proc.Dead
	}
	machine := t.Labels[engine.LabelMachine]
	elsewhere := machine != "" && x.h.Machine != "" && machine != x.h.Machine
	return life != proc.Alive && !elsewhere
}

// add makes a target a part of a finding.
func (x *index) add(f *Finding, e *knownEngine, t engine.Target) {
	x.reported[t.ID] = true
	f.Containers = append(f.Containers, found(e, &t.Info, t.Why))
	f.bear(&t.Info)
	f.ending.targets = append(f.ending.targets, t)
}

// doubtful reports objects that seem to be a dead session's but are not proven to be. Most are containers of an image
// that was committed from one of the session's containers, and so carries its labels.
func (x *index) doubtful(e *knownEngine, id string, all []engine.Target) {
	f := Finding{Class: classSuspect, Session: id, UID: x.h.UID, Gateway: gateway{State: proc.Unknown.String()}}
	f.Advice = "not proven: look at it, and remove it by hand if no session needs it"
	for _, t := range all {
		if !x.reported[t.ID] {
			x.suspect(&f, e, &t.Info, t.Why)
		}
	}
	if len(f.Containers) > 0 {
		x.suspects = append(x.suspects, f)
	}
}

// suspect adds an object to a finding that is only reported.
func (x *index) suspect(f *Finding, e *knownEngine, i *engine.Info, why string) {
	x.reported[i.ID] = true
	f.Containers = append(f.Containers, found(e, i, why))
	f.nameAfter(i)
	f.bear(i)
	for _, have := range f.Evidence {
		if have == why {
			return
		}
	}
	f.Evidence = append(f.Evidence, why)
}

// nameAfter names a finding after its first container.
func (f *Finding) nameAfter(i *engine.Info) {
	if f.Name == "" {
		f.Name = i.Name
	}
	if len(f.Command) == 0 && i.Image != "" {
		f.Command = []string{i.Image}
	}
}

// bear makes a finding at least as old as an object of it.
func (f *Finding) bear(i *engine.Info) {
	if f.born.IsZero() || i.Created.Before(f.born) {
		f.born = i.Created
	}
}

// labelled: containers with our label whose session is dead by what the labels say. Records have taken theirs already.
func (x *index) labelled(r Rules) []Finding {
	var out []Finding
	for _, e := range x.h.Engines {
		bySession := map[string][]engine.Info{}
		var order []string
		for _, i := range e.Have {
			id := i.Labels[engine.LabelSession]
			if id == "" || i.IsKept() || x.reported[i.ID] || r.Session != "" && r.Session != id {
				continue
			}
			if bySession[id] == nil {
				order = append(order, id)
			}
			bySession[id] = append(bySession[id], i)
		}
		for _, id := range order {
			if f, ok := x.labelledSession(e, id, bySession[id]); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

// labelledSession judges what carries the label of one session.
func (x *index) labelledSession(e *knownEngine, id string, all []engine.Info) (Finding, bool) {
	f := Finding{Class: classContainer, Session: id, UID: x.h.UID, ending: &ending{engine: e}}
	odd := Finding{Class: classSuspect, Session: id, UID: x.h.UID, Gateway: gateway{State: proc.Unknown.String()}, Advice: foreignAdvice}
	var dead []engine.Info
	for _, i := range all {
		life, why := x.life(i.Labels)
		switch {
		case life == proc.Alive || x.newborn(i.Labels):
		case life == proc.Dead:
			dead = append(dead, i)
		default:
			x.suspect(&odd, e, &i, why)
		}
	}
	if len(odd.Containers) > 0 {
		x.suspects = append(x.suspects, odd)
	}
	if len(dead) == 0 {
		return f, false
	}
	mine, doubtful := (engine.Claim{Session: id}).Targets(dead, e.ImageLabels)
	for _, t := range mine {
		x.add(&f, e, t)
		f.nameAfter(&t.Info)
	}
	x.doubtful(e, id, doubtful)
	if len(mine) == 0 {
		return f, false
	}
	f.Gateway = x.labelledGateway(mine[0].Labels)
	_, why := x.life(mine[0].Labels)
	f.Evidence = []string{"its label names session " + id + ", which no supervisor looks after", why}
	return f, true
}

const foreignAdvice = "its session may live elsewhere: run mcp-tether reap there, or remove it by hand if you know better"

// newborn reports whether a create was asked for after the pass began, or at a time that cannot be read.
func (x *index) newborn(labels map[string]string) bool {
	at, err := time.Parse(time.RFC3339Nano, labels[engine.LabelCreated])
	return err != nil || !at.Before(x.h.Began)
}

// life reports whether the session that a container's labels name lives, and why that is thought. Only identities of
// this boot and pid namespace can be asked about; those of an earlier boot of this machine are dead.
func (x *index) life(labels map[string]string) (proc.Life, string) {
	sup, err := proc.ParseGlobalID(labels[engine.LabelSupervisor])
	switch {
	case x.isSupervised(x.h.UID, labels[engine.LabelSession]):
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
