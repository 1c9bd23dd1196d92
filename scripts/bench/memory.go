package main

import (
	"fmt"
	"time"
)

// measureMemory adds up what the wrapper's processes hold while many sessions run at once. Pages of the binary are
// shared between them, and PSS counts each sharer's part.
func measureMemory(b *bench) (table, error) {
	t := table{
		Section: "memory",
		Title:   fmt.Sprintf("Memory: the wrapper's own processes, %d sessions at once", b.sessions),
		Columns: []string{"sessions", "PSS median MB", "PSS mean MB", "private median MB", "threads median", "threads max"},
	}
	for _, s := range b.subjects {
		if s.missing {
			t.missing(s.name, "")
			continue
		}
		all, err := b.startSleepers(s, b.sessions)
		if err != nil {
			return t, err
		}
		time.Sleep(3 * time.Second) // start-up work and its garbage are not what a session holds
		byRole, err := weigh(all)
		endAll(all)
		if err != nil {
			return t, err
		}
		for _, role := range []string{together, "anchor", "supervisor", "inner"} {
			if m, ok := byRole[role]; ok && !(role == "anchor" && len(byRole) == 2) {
				t.add(s.name, role, float64(len(m.pss)), median(m.pss), mean(m.pss), median(m.private),
					median(m.threads), quantile(m.threads, 1))
			}
		}
	}
	return t, nil
}

const together = "whole session"

// weights are the figures of one role, one entry a session, in MB (10^6 bytes).
type weights struct{ pss, private, threads []float64 }

func weigh(all []*live) (map[string]*weights, error) {
	byRole := map[string]*weights{}
	for _, l := range all {
		procs, err := wrappers(l)
		if err != nil {
			return nil, err
		}
		var sum memory
		for _, p := range procs {
			m, err := p.memory()
			if err != nil {
				return nil, err
			}
			note(byRole, p.role(l.pid), m)
			sum = memory{sum.pss + m.pss, sum.private + m.private, sum.threads + m.threads}
		}
		note(byRole, together, sum)
	}
	return byRole, nil
}

func note(byRole map[string]*weights, role string, m memory) {
	w := byRole[role]
	if w == nil {
		w = &weights{}
		byRole[role] = w
	}
	const kib = 1024 / 1e6
	w.pss = append(w.pss, m.pss*kib)
	w.private = append(w.private, m.private*kib)
	w.threads = append(w.threads, m.threads)
}
