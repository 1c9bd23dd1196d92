package main

import (
	"fmt"
	"time"
)

const idleSessions = 10

// measureIdle counts how often the wrapper's processes wake while nothing happens. All subjects idle at the same time:
// none of them should do anything that could disturb another, and whether one does is what is measured.
func measureIdle(b *bench) (table, error) {
	t := table{
		Section: "idle",
		Title:   fmt.Sprintf("Idle: the wrapper's own processes over %s of silence, per session", b.idle),
		Columns: []string{"sessions", "context switches median", "context switches max", "cpu ms median"},
	}
	started := map[string][]*live{}
	defer func() {
		for _, all := range started {
			endAll(all)
		}
	}()
	for _, s := range b.subjects {
		if s.missing {
			continue
		}
		all, err := b.startSleepers(s, idleSessions)
		if err != nil {
			return t, err
		}
		started[s.name] = all
	}
	time.Sleep(3 * time.Second) // let start-up work settle
	before, err := activityOf(started)
	if err != nil {
		return t, err
	}
	time.Sleep(b.idle)
	after, err := activityOf(started)
	if err != nil {
		return t, err
	}
	for _, s := range b.subjects {
		if s.missing {
			t.missing(s.name, "")
			continue
		}
		t.addIdle(s.name, before[s.name], after[s.name])
	}
	return t, nil
}

// roleActivity is, for each role, one entry a session.
type roleActivity map[string][]activity

func activityOf(started map[string][]*live) (map[string]roleActivity, error) {
	out := map[string]roleActivity{}
	for name, all := range started {
		roles := roleActivity{}
		for _, l := range all {
			procs, err := wrappers(l)
			if err != nil {
				return nil, err
			}
			for _, p := range procs {
				a, err := p.activity()
				if err != nil {
					return nil, err
				}
				role := p.role(l.pid)
				roles[role] = append(roles[role], a)
			}
		}
		out[name] = roles
	}
	return out, nil
}

func (t *table) addIdle(name string, before, after roleActivity) {
	for _, role := range []string{"anchor", "supervisor", "inner"} {
		if len(before[role]) == 0 || len(before[role]) != len(after[role]) {
			continue
		}
		var switches, cpu []float64
		for i, a := range after[role] {
			switches = append(switches, a.switches-before[role][i].switches)
			cpu = append(cpu, ms(a.cpu-before[role][i].cpu))
		}
		shown := role
		if len(before) == 1 {
			shown = "" // one process has no need of a role
		}
		t.add(name, shown, float64(len(switches)), median(switches), quantile(switches, 1), median(cpu))
	}
}
