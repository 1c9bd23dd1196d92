package reap

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// crate is an object of the engine with its truth.
type crate struct {
	engine.Object
	verdict verdict
	gone    bool
	role    string
}

const (
	ourMachine = "0123456789abcdef0123456789abcdef"
	boxed      = "mcp/boxed:latest" // the image of a configured server
)

// clock is the time of a tick: the machine was booted at midnight.
func (w *world) clock(ticks uint64) time.Time {
	return time.Date(2026, 1, 2, 0, 0, 0, 123_456_789, time.UTC).Add(time.Duration(ticks) * proc.Tick)
}

func (w *world) openEngines() {
	w.engine = &knownEngine{Endpoint: engine.Endpoint{URL: "unix:///run/e.sock", Socket: "/run/e.sock"}}
	w.deaf = &knownEngine{Endpoint: engine.Endpoint{URL: "unix:///run/deaf.sock", Socket: "/run/deaf.sock"}, Err: errors.New("no answer")}
	w.h.Engines = []*knownEngine{w.engine, w.deaf}
}

// closeEngines writes what a list of the engine holds.
func (w *world) closeEngines() {
	w.Shuffle(len(w.crates), func(i, j int) { w.crates[i], w.crates[j] = w.crates[j], w.crates[i] })
	for _, c := range w.crates {
		if c.gone {
			continue
		}
		object := c.Object
		object.Labels = maps.Clone(c.Labels)
		if object.Kind == engine.Container {
			object.Created = object.Created.Truncate(time.Second)
		}
		w.engine.Have = append(w.engine.Have, object)
	}
}

// crate adds an object to the engine; it takes the engine up to two seconds.
func (w *world) crate(kind engine.Kind, role string, labels map[string]string) *crate {
	w.tick += uint64(w.IntN(200))
	c := &crate{role: role}
	id := fmt.Sprintf("%016x%016x", w.Uint64(), w.Uint64())
	c.Object = engine.Object{
		Kind: kind, ID: id, Name: "n" + id[:6], Created: w.clock(w.tick), Labels: labels,
		State: pick(w, "running", "running", "created", "exited"), Image: pick(w, boxed, "postgres:16", "sha256:"+id),
	}
	w.crates = append(w.crates, c)
	return c
}

// labels are those of one create request of a session.
func (w *world) labels(s *wrapped) map[string]string {
	mark := func(a *actor) string { return proc.GlobalID{ID: a.ID, Host: here}.String() }
	out := map[string]string{
		engine.LabelSession: s.id, engine.LabelMachine: ourMachine,
		engine.LabelGateway: mark(s.gateway), engine.LabelSupervisor: mark(s.sup),
		engine.LabelCreated: w.clock(w.tick).Format(time.RFC3339Nano),
	}
	if s.anchor != nil {
		out[engine.LabelAnchor] = mark(s.anchor)
	}
	return out
}

// load lets a session create containers.
func (w *world) load(s *wrapped) {
	if w.chance(50) {
		return
	}
	for range 1 + w.IntN(3) {
		w.create(s)
	}
}

func (w *world) create(s *wrapped) {
	labels, kind := w.labels(s), pick(w, engine.Container, engine.Container, engine.Container, engine.Network, engine.Pod)
	if s.rec != nil {
		s.rec.EngineUsed = true
	}
	if w.chance(5) {
		return // killed before the engine was asked
	}
	c := w.crate(kind, "container of "+s.id, labels)
	s.crates = append(s.crates, c)
	c.gone = w.chance(20)
	if kind == engine.Container && w.chance(20) {
		w.copies(c)
	}
}

// copies: the user keeps what a container of a session held, or clones the container itself.
func (w *world) copies(from *crate) {
	w.tick += 32 * proc.TicksPerSecond
	w.crate(engine.Container, pick(w, "committed ", "cloned ")+from.role, maps.Clone(from.Labels))
}

// judgeCrates says what a dead session's containers deserve. The labels prove it to every user.
func (w *world) judgeCrates(s *wrapped) {
	for _, c := range s.crates {
		switch {
		case s.rec != nil && s.rec.Held && s.uid == w.h.UID:
			c.verdict = innocent // nothing is known of the supervisor
		case s.rec != nil && s.rec.Held:
			c.verdict = either
		default:
			c.verdict = guilty
		}
	}
}

// crossedContainers: from another machine, a clone of this one, or another pid namespace, behind a shared engine. By
// chance, no process here has the pids that they name.
func (w *world) crossedContainers() {
	nobody := proc.GlobalID{ID: proc.ID{PID: 1 << 21, Start: 1}, Host: here}
	for range 1 + w.IntN(3) {
		from, machine := nobody, ourMachine
		at := w.clock(w.tick)
		var role string
		switch w.IntN(6) {
		case 0:
			role, from.Boot, machine = "of another machine", "another boot", "ffffffffffffffffffffffffffffffff"
			at = at.Add(-time.Duration(w.IntN(48)) * time.Hour)
		case 1:
			role, from.Boot = "of a clone of this machine", "another boot"
		case 2:
			role, from.Boot, machine = "of a machine without id", "another boot", ""
			at = at.Add(-48 * time.Hour)
		case 3:
			role, from.PIDNS = "of another pid namespace", 4026532999
		case 4:
			role = "a newborn"
			at = at.Add(time.Hour)
		default:
			role, from = "of nobody knows whom", proc.GlobalID{}
		}
		c := w.crate(engine.Container, role, map[string]string{
			engine.LabelSession:    fmt.Sprintf("%016x", w.Uint64()),
			engine.LabelSupervisor: from.String(), engine.LabelMachine: machine, engine.LabelCreated: at.Format(time.RFC3339Nano),
		})
		c.Created = at
	}
}

// oldContainers: from before the last boot, with a record or without.
func (w *world) oldContainers() {
	old := proc.Host{Boot: "00000000-0000-4000-8000-00000000000d", PIDNS: here.PIDNS}
	at := w.clock(0).Add(-time.Duration(1+w.IntN(100)) * time.Hour)
	uid := w.anyUID()
	id := fmt.Sprintf("%016x", w.Uint64())
	c := w.crate(engine.Container, "of an earlier boot", map[string]string{
		engine.LabelSession: id, engine.LabelMachine: ourMachine,
		engine.LabelSupervisor: proc.GlobalID{ID: w.init.ID, Host: old}.String(), engine.LabelCreated: at.Format(time.RFC3339Nano),
	})
	c.Created, c.verdict = at.Add(time.Second), guilty
	if w.chance(30) {
		w.crate(engine.Container, "committed from one of an earlier boot", maps.Clone(c.Labels))
	}
	if w.chance(50) {
		s := storedSession{Stored: inDirOf(uid), At: w.engine}
		s.Record = session.Record{Version: 1, ID: id, Host: old, UID: uid, Processes: session.Processes{Supervisor: w.init.ID}, Containers: session.Containers{EngineUsed: true}}
		w.h.Sessions = append(w.h.Sessions, s)
	}
}

// plainContainers: of the image of a configured server, but not ours, with clients or without.
func (w *world) plainContainers() {
	g := w.gatewayUnder(w.login)
	for range w.IntN(4) {
		w.crate(engine.Container, "without label", pick(w, nil, map[string]string{"com.docker.compose.project": "x"})).Image = boxed
		if w.chance(50) {
			w.add(g, g.UID, "docker", "docker", "run", "-i", "--rm", boxed)
		}
	}
}

// containersStruck lists what would be removed, by id: what is named, and all that the engine has of the session.
func containersStruck(f Finding) map[string]Finding {
	out := map[string]Finding{}
	if f.engine == nil {
		return out
	}
	for _, c := range f.Containers {
		out[c.ID] = f
	}
	for i := range f.engine.Have {
		o := &f.engine.Have[i]
		if owns, _ := (engine.Owner{Session: f.Session}).Owns(o); owns {
			out[o.ID] = f
		}
	}
	return out
}

func (v *verdicts) judgeContainers(w *world, found []Finding, round uint64) {
	struck, named := map[string]Finding{}, map[string]bool{}
	for _, f := range found {
		if f.proven(true) {
			maps.Copy(struck, containersStruck(f))
		}
		for _, c := range f.Containers {
			if named[c.ID] {
				v.twice++
				v.note(w, round, "container twice", "container %s named twice", c.ID)
			}
			named[c.ID] = true
		}
	}
	for _, c := range w.crates {
		if c.gone {
			continue
		}
		v.crates++
		by, ok := struck[c.ID]
		switch {
		case ok && c.verdict == innocent:
			v.falseRemovals++
			v.note(w, round, "removed "+kindOf(c.role), "INNOCENT %s %s (%s) by %s %s: %v", c.Kind, c.ID, c.role, by.Class, by.Session, by.Evidence)
		case !ok && c.verdict == guilty:
			v.left++
			v.note(w, round, "left "+kindOf(c.role), "LEFT %s %s (%s), pass of uid %d", c.Kind, c.ID, c.role, w.h.UID)
		}
		if ok {
			v.removed++
		}
		if ok && !named[c.ID] {
			v.note(w, round, "unnamed", "UNNAMED %s (%s)", c.ID, c.role)
			v.left++
		}
	}
}

func kindOf(role string) string { return (&actor{role: role}).kind() }

// Rules for containers that suggest themselves. The model must see through each of them.
func TestModelCatchesContainers(t *testing.T) {
	for name, broken := range map[string]finder{
		"label of no held lease": byLabel, "label alone": byLabelOfDead,
		"machine not asked": withMachine(func(l map[string]string, h *machine) { l[engine.LabelMachine] = h.Machine }),
		// The boot seems to have begun just now.
		"clone not thought of": func(h *machine, r Rules) []Finding { h.Since = 0; return find(h, r) },
		"pid namespace not asked": withMachine(func(l map[string]string, h *machine) {
			if id, err := proc.ParseGlobalID(l[engine.LabelSupervisor]); err == nil && id.Boot == h.Boot {
				l[engine.LabelSupervisor] = proc.GlobalID{ID: id.ID, Host: h.Host}.String()
			}
		}),
		"anchor not asked": withMachine(func(l map[string]string, _ *machine) { delete(l, engine.LabelAnchor) }),
		"newborns":         func(h *machine, r Rules) []Finding { h.Began = h.Began.Add(24 * time.Hour); return find(h, r) },
		"nothing at all":   func(*machine, Rules) []Finding { return nil },
	} {
		if !catches(broken, func(v *verdicts) bool { return v.falseRemovals > 0 || name == "nothing at all" && v.left > 0 }) {
			t.Errorf("%s: the model found nothing wrong with it", name)
		}
	}
}

// this makes a finding of an object with a label.
func this(e *knownEngine, o engine.Object) Finding {
	return Finding{Class: classContainer, Containers: []display.Container{e.shows(&o, "")}, remains: remains{engine: e}}
}

func byLabel(h *machine, _ Rules) (out []Finding) {
	held := map[string]bool{}
	for _, s := range h.Sessions {
		held[s.ID] = s.Held
	}
	for _, i := range h.Engines[0].Have {
		if id := i.Labels[engine.LabelSession]; id != "" && !held[id] {
			out = append(out, this(h.Engines[0], i))
		}
	}
	return out
}

// byLabelOfDead ends whatever carries the label of a session that is proven dead, copies as well.
func byLabelOfDead(h *machine, r Rules) (out []Finding) {
	dead := map[string]bool{}
	for _, f := range find(h, r) {
		dead[f.Session] = dead[f.Session] || f.Class == classRecord || f.Class == classContainer
	}
	for _, i := range h.Engines[0].Have {
		if id := i.Labels[engine.LabelSession]; id != "" && dead[id] {
			out = append(out, this(h.Engines[0], i))
		}
	}
	return out
}

// withMachine changes labels before the pass.
func withMachine(change func(labels map[string]string, h *machine)) finder {
	return func(h *machine, r Rules) []Finding {
		for _, i := range h.Engines[0].Have {
			if i.Labels[engine.LabelSession] != "" {
				change(i.Labels, h)
			}
		}
		return find(h, r)
	}
}
