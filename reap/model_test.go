package reap

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/argv"
	"mcp-tether/internal/clients"
	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/teardown"
)

var modelRound = flag.Uint64("model.round", 0, "play this round only")

// machines is how many are played at least: as many as the faults that are planted need.
const machines = 5000

// finder is what is put to the test: find, or something worse.
type finder func(*machine, Rules) []Finding

// verdicts counts what a finder did over many machines.
type verdicts struct {
	falseKills, missed, twice int
	processes, ended          int
	classes                   map[class]int
	kinds                     map[string]int
	first                     string
	// The same for containers, and for records from other pid namespaces, which are not in the counts above.
	falseRemovals, left, crates, removed int
}

func TestModel(t *testing.T) {
	seed := testkit.Seed(t)
	from, to := uint64(1), uint64(max(testkit.Rounds(machines), machines))
	if *modelRound > 0 {
		from, to = *modelRound, *modelRound
	}
	v := play(asEachUser(find), seed, from, to)
	t.Logf("%d processes, %d ended, findings %v", v.processes, v.ended, v.classes)
	t.Logf("%d containers, %d removed or stopped", v.crates, v.removed)
	if v.falseKills+v.missed+v.twice+v.falseRemovals+v.left > 0 {
		t.Errorf("%d innocents would be ended, %d proven ones are missed, %d named twice, %d containers and records removed falsely, %d missed: %v; the first of each:\n%s",
			v.falseKills, v.missed, v.twice, v.falseRemovals, v.left, v.kinds, v.first)
	}
	for _, c := range []class{classRecord, classMark, classCgroup, classContainer, classSevered, classDropped, classSuspect} {
		if *modelRound == 0 && v.classes[c] < 100 {
			t.Errorf("only %d findings of class %s: the model does not reach it", v.classes[c], c)
		}
	}
}

// The rules of home-made sweepers. The model must see through each of them.
func TestModelCatches(t *testing.T) {
	for name, broken := range map[string]finder{
		"ppid 1":          byParent,
		"by name":         byName,
		"bare pid":        byBarePID,
		"mark alone":      byMark,
		"nothing at all":  func(*machine, Rules) []Finding { return nil },
		"lease not asked": withoutLeases,
	} {
		if !catches(broken, func(v *verdicts) bool { return v.falseKills > 0 || name == "nothing at all" && v.missed > 0 }) {
			t.Errorf("%s: the model found nothing wrong with it", name)
		}
	}
}

// With one rule switched off the model finds what that does, and nothing else.
func TestModelCatchesFaults(t *testing.T) {
	changed := func(change func(h *machine)) finder {
		return asEachUser(func(h *machine, r Rules) []Finding {
			change(h)
			return find(h, r)
		})
	}
	for name, c := range map[string]struct {
		find  finder
		fault func(w *world)
		kind  string // how it begins
	}{
		"none":                              {find: asEachUser(find)},
		"set-user-ID programs are believed": {asEachUser(find), func(w *world) { w.credulous = true }, "innocent passwd"},
		"a caller that waits is not seen": {
			find: changed(func(h *machine) { h.Stdout = func(int) (bool, []int) { return false, nil } }), kind: "innocent unwrapped",
		},
		"no cgroup of another namespace is seen": {find: changed(func(h *machine) {
			for i := range h.Sessions {
				if s := &h.Sessions[i]; s.Host != h.Host {
					h.Leaves = slices.DeleteFunc(h.Leaves, func(l cgroupLeaf) bool { return l.ID == s.ID })
				}
			}
		}), kind: "innocent record"},
	} {
		var faults []func(*world)
		if c.fault != nil {
			faults = append(faults, c.fault)
		}
		found := 0
		for kind, n := range play(c.find, 1, 1, 500, faults...).kinds {
			if found += n; c.kind == "" || !strings.HasPrefix(kind, c.kind) {
				t.Errorf("%s: %d times %s", name, n, kind)
			}
		}
		if found == 0 && c.kind != "" {
			t.Errorf("%s: the model found nothing wrong with it", name)
		}
	}
}

// catches reports whether 600 worlds show what is wrong with a finder.
func catches(broken finder, wrong func(*verdicts) bool) bool {
	for from := uint64(1); from < 600; from += 20 {
		if wrong(play(broken, 1, from, from+19)) {
			return true
		}
	}
	return false
}

// play plays worlds, each with the faults from its beginning on.
func play(find finder, seed, from, to uint64, faults ...func(*world)) *verdicts {
	v := &verdicts{classes: map[class]int{}, kinds: map[string]int{}}
	for round := from; round <= to; round++ {
		w := newWorld(seed, round)
		for _, fault := range faults {
			fault(w)
		}
		for range 1 + w.IntN(6) {
			s := scenes[w.IntN(len(scenes))]
			w.scenes = append(w.scenes, s.name)
			s.play(w)
		}
		found := find(w.machine(), modelRules())
		v.judge(w, found, round)
		v.judgeContainers(w, found, round)
		v.judgeRecords(w, found, round)
	}
	return v
}

// judgeRecords judges what becomes of the records from other pid namespaces.
func (v *verdicts) judgeRecords(w *world, found []Finding, round uint64) {
	for id, over := range w.over {
		removed := slices.ContainsFunc(found, func(f Finding) bool { return f.Session == id && f.proven(true) })
		switch {
		case removed && !over:
			v.falseRemovals++
			v.note(w, round, "innocent record", "RECORD %s of a session that may live is removed", id)
		case !removed && over:
			v.left++
			v.note(w, round, "missed record", "MISSED record %s, nothing is left of its session", id)
		}
	}
}

func (v *verdicts) judge(w *world, found []Finding, round uint64) {
	ended := map[proc.ID]Finding{}
	for _, f := range found {
		v.classes[f.Class]++
		if !f.proven(true) {
			continue
		}
		for _, id := range struck(w.h, f) {
			if other, ok := ended[id]; ok && other.leaf == f.leaf && other.leaf == "" && other.UID == f.UID {
				v.twice++
				v.note(w, round, "twice", "named twice: %v by %s and %s", id, other.Class, f.Class)
			}
			ended[id] = f
		}
	}
	for _, a := range w.all {
		if a.gone {
			continue
		}
		v.processes++
		f, hit := ended[a.ID]
		switch {
		case hit && a.verdict == innocent:
			v.falseKills++
			v.note(w, round, "innocent "+a.kind()+" as "+string(f.Class), "INNOCENT %v uid %d %q (%s) ended as %s %s: %s", a.ID, a.UID, a.Args, a.role, f.Class, f.Session, strings.Join(f.Evidence, "; "))
		case !hit && a.verdict == guilty && a.Start < w.h.Since:
			v.missed++
			v.note(w, round, "missed "+a.kind(), "MISSED %v uid %d %q (%s), pass of uid %d", a.ID, a.UID, a.Args, a.role, w.h.UID)
		}
		if hit {
			v.ended++
		}
	}
}

// note counts what went wrong by kind, and keeps the first of each.
func (v *verdicts) note(w *world, round uint64, kind, format string, args ...any) {
	if v.kinds[kind]++; v.kinds[kind] == 1 {
		v.first += fmt.Sprintf("round %d %q:\n    ", round, w.scenes) + fmt.Sprintf(format, args...) + "\n"
	}
}

// struck lists the processes that package teardown would signal. They are the members, those in the leaf, and those
// below them, but only of the one user, and without those to keep.
func struck(h *machine, f Finding) []proc.ID {
	byPID, children := map[int]*process{}, map[int][]int{}
	for i := range h.Procs {
		p := &h.Procs[i]
		byPID[p.PID] = p
		if up := p.PPID; up > 0 {
			children[up] = append(children[up], p.PID)
		}
	}
	var queue []int
	for _, id := range f.Members {
		if p := byPID[id.PID]; p != nil && p.ID == id {
			queue = append(queue, id.PID)
		}
	}
	for _, l := range h.Leaves {
		if l.Dir == f.leaf {
			queue = append(queue, l.PIDs...)
		}
	}
	var all []*process
	group := map[int]bool{}
	for ; len(queue) > 0; queue = queue[1:] {
		p := byPID[queue[0]]
		if p == nil || group[p.PID] {
			continue
		}
		group[p.PID] = true
		all = append(all, p)
		for _, c := range children[p.PID] {
			if byPID[c].Start >= p.Start {
				queue = append(queue, c)
			}
		}
	}
	kept := func(p *process) bool {
		for range maxClimb {
			if !f.group.KeepNothing && (p.Keep || matchesAny(f.group.Keep, p)) || slices.Contains(f.group.Spared, p.ID) {
				return true
			}
			up := byPID[p.PPID]
			if up == nil || !group[up.PID] || up.Start > p.Start {
				return false
			}
			p = up
		}
		return false
	}
	var out []proc.ID
	for _, p := range all {
		if !p.Dead() && (f.onlyUser() < 0 || p.UID == f.UID) && !kept(p) {
			out = append(out, p.ID)
		}
	}
	return out
}

func matchesAny(patterns []string, p *process) bool {
	for _, pattern := range patterns {
		if teardown.Match(pattern, p.Comm) {
			return true
		}
	}
	return false
}

// one makes a finding of one process.
func one(c class, p *process) Finding {
	return Finding{Class: c, UID: p.UID, Members: []proc.ID{p.ID}, Top: p.ID}
}

func byParent(h *machine, r Rules) (out []Finding) {
	for i := range h.Procs {
		p := &h.Procs[i]
		if _, ok := r.Match(clients.Running{UID: p.UID, Args: p.Args}); ok && p.PPID == 1 && !p.Dead() {
			out = append(out, one(classSevered, p))
		}
	}
	return out
}

func byName(h *machine, r Rules) (out []Finding) {
	for i := range h.Procs {
		p := &h.Procs[i]
		if _, ok := r.Match(clients.Running{UID: p.UID, Args: p.Args}); ok && h.Stdin(p.PID).Far == evidence.Severed {
			out = append(out, one(classSevered, p))
		}
	}
	return out
}

func byBarePID(h *machine, _ Rules) (out []Finding) {
	for i := range h.Procs {
		for _, s := range h.Sessions {
			if !s.Held && s.Host == h.Host && h.Procs[i].PID == s.Server.PID {
				out = append(out, one(classRecord, &h.Procs[i]))
			}
		}
	}
	return out
}

func byMark(h *machine, _ Rules) (out []Finding) {
	for i := range h.Procs {
		if p := &h.Procs[i]; p.Mark != "" && !p.Keep {
			out = append(out, one(classMark, p))
		}
	}
	return out
}

// Each user's pass believes the records of all users. Then a hostile user's claims hide what is left of others.
func TestModelCatchesBelief(t *testing.T) {
	var all []storedSession
	believing := asEachUser(func(h *machine, r Rules) []Finding {
		h.Sessions = nil
		for _, s := range all {
			s.Dir, s.At = inDirOf(h.UID).Dir, nil
			h.Sessions = append(h.Sessions, s)
		}
		return find(h, r)
	})
	broken := func(h *machine, r Rules) []Finding {
		all = h.Sessions
		return believing(h, r)
	}
	if !catches(broken, func(v *verdicts) bool { return v.missed > 0 }) {
		t.Error("the model found nothing wrong with it")
	}
}

// withoutLeases takes every record for that of a dead supervisor.
func withoutLeases(h *machine, r Rules) []Finding {
	for i := range h.Sessions {
		h.Sessions[i].Held = false
	}
	for i := range h.Procs {
		if p := &h.Procs[i]; argv.IsSession(p.Args) {
			p.Args = []string{"something"}
		}
	}
	return find(h, r)
}
