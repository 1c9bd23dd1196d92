package reap

import (
	"slices"
	"strings"
	"testing"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// keptIDs has the record of a session name processes as kept.
func (s *storedSession) keptIDs(h *machine, why string, pids ...int) {
	s.State = session.StateKept
	for _, pid := range pids {
		s.Kept = append(s.Kept, session.Fate{ID: h.proc(pid).ID, Command: "c", What: session.Kept + why})
	}
}

// usedBy says who uses a process.
func (h *machine) usedBy(users map[int]int) {
	h.User = func(pid int, inside []int) int {
		if slices.Contains(inside, users[pid]) {
			return 0
		}
		return users[pid]
	}
}

// What belongs to people is shown as long as it is there, and what nobody uses any more is ended.
func TestFindPeoples(t *testing.T) {
	rows := []string{"10 1 5 node s", "11 1 6 daemon d", "12 11 7 worker w", "20 1 3 shim other", "30 1 4 claude gateway"}
	inUse := func(h *machine) { h.usedBy(map[int]int{11: 20}) }
	const why = "in use by 20 shim"
	for name, c := range map[string]struct {
		given  func(h *machine)
		rules  Rules
		ended  []int
		listed string // the evidence of the one that is shown, "" for none
		stays  bool   // a record
	}{
		"in use, of a session that was ended": {given: func(h *machine) { inUse(h); h.dead(0).keptIDs(h, why, 11) }, listed: why},
		"not in use any more":                 {given: func(h *machine) { h.dead(0).keptIDs(h, why, 11) }, ended: []int{11, 12}},
		"in use, with --keep-nothing": {
			given: func(h *machine) { inUse(h); h.dead(0).keptIDs(h, why, 11) }, rules: Rules{KeepNothing: true}, ended: []int{11, 12},
		},
		"in use, of a session with --keep-nothing": {
			given: func(h *machine) { inUse(h); s := h.dead(0); s.KeepNothing = true; s.keptIDs(h, why, 11) }, ended: []int{11, 12},
		},
		"kept by its name": {given: func(h *machine) { h.dead(10).Keep = []string{"daemon"}; mark(h, 11) }, ended: []int{10}},
		"kept by its name, with --keep-nothing": {
			given: func(h *machine) { h.dead(10).Keep = []string{"daemon"}; mark(h, 11) }, rules: Rules{KeepNothing: true}, ended: []int{10, 11, 12},
		},
		"another process by its number": {given: func(h *machine) { s := h.dead(0); s.keptIDs(h, why, 11); s.Kept[0].Start++ }},
		"another user's":                {given: func(h *machine) { h.dead(0).keptIDs(h, why, 11); h.proc(11).UID = 7 }},
		"kept by its mark":              {given: func(h *machine) { h.dead(0).keptIDs(h, teardown.KeepMark, 11) }},
		"in use, of a killed pair": {
			given: func(h *machine) { inUse(h); h.dead(10); mark(h, 11) }, ended: []int{10}, listed: why, stays: true,
		},
		"in use by the gateway": {
			given: func(h *machine) { h.usedBy(map[int]int{11: 30}); h.dead(10).Gateway = h.proc(30).ID; mark(h, 11) }, ended: []int{10, 11, 12},
		},
		"in use by another process with the gateway's number": {
			given: func(h *machine) {
				inUse(h)
				h.dead(10).Gateway = proc.ID{PID: 20, Start: 2}
				mark(h, 11)
			},
			ended: []int{10}, listed: why, stays: true,
		},
		"in use by what it has started": {
			given: func(h *machine) { h.usedBy(map[int]int{11: 12}); h.dead(10); mark(h, 11) }, ended: []int{10, 11, 12},
		},
		"in use, in the group of the server": {
			given: func(h *machine) { inUse(h); h.dead(10); mark(h, 11); h.proc(11).PGRP = 10 }, ended: []int{10, 11, 12},
		},
		"in use, in the group that the server was started in": {
			given: func(h *machine) { inUse(h); h.dead(10).Group = 9; mark(h, 11); h.proc(11).PGRP = 9 }, ended: []int{10, 11, 12},
		},
		"in use, in the leaf alone":          {given: func(h *machine) { inUse(h); h.dead(10); inLeaf(h, 10, 11, 12) }, ended: []int{10}, listed: why, stays: true},
		"in use, without a record":           {given: func(h *machine) { inUse(h); mark(h, 11) }, listed: why},
		"in use, in a leaf without a record": {given: func(h *machine) { inUse(h); inLeaf(h, 10, 11, 12) }, ended: []int{10}, listed: why, stays: true},
		"the only one in such a leaf":        {given: func(h *machine) { inUse(h); inLeaf(h, 11, 12) }, listed: why},
		"in another pid namespace": {given: func(h *machine) {
			inUse(h)
			mark(h, 11)
			h.Inside = func(pid int) bool { return pid != 11 }
		}},
		"records that cannot be read": {given: func(h *machine) { inUse(h); mark(h, 11); h.Blind = true }},
		"below the anchor of a session that is taken over": {given: func(h *machine) {
			inUse(h)
			mark(h, 11)
			h.proc(11).PPID, h.proc(30).Comm, h.proc(30).Args = 30, "mcp-tether", []string{"mcp-tether", "run", "--", "s"}
		}},
		"of a living session": {given: func(h *machine) { inUse(h); h.dead(10).Held = true; mark(h, 11) }},
		"a person's browser":  {given: func(h *machine) { h.dead(10); mark(h, 11); h.proc(11).Browser = teardown.Personal }, ended: []int{10}, listed: teardown.BrowserReason, stays: true},
		"a driven browser": {
			given: func(h *machine) {
				h.dead(10)
				mark(h, 11)
				h.proc(11).Browser, h.proc(12).Browser = teardown.Driven, teardown.Personal
			},
			ended: []int{10, 11, 12},
		},
		"a process of a browser that has ended": {given: func(h *machine) { h.dead(10); mark(h, 11); h.proc(11).Browser = teardown.OfABrowser }, ended: []int{10, 11, 12}},
		"a browser, of another session": {
			given: func(h *machine) { h.dead(10); mark(h, 11); h.proc(11).Browser = teardown.Personal }, rules: Rules{Session: "ffffffffffffffff"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := table(t, rows...)
			c.given(h)
			if got := ended(h, c.rules); !slices.Equal(got, c.ended) && len(got)+len(c.ended) > 0 {
				t.Errorf("ended %v, want %v", got, c.ended)
			}
			var listed []string
			stays := false
			for _, f := range find(h, c.rules) {
				stays = stays || f.stays
				if f.Class == classSuspect {
					listed = append(listed, strings.TrimPrefix(f.Evidence[0], session.Kept))
					if f.Top != h.proc(11).ID || !slices.Equal(f.Members, []proc.ID{h.proc(11).ID, h.proc(12).ID}) || f.Advice == "" {
						t.Errorf("it is shown as %+v", f)
					}
				}
			}
			if strings.Join(listed, ",") != c.listed || stays != c.stays {
				t.Errorf("listed %q, want %q; the record stays: %t", listed, c.listed, stays)
			}
		})
	}
}

// Those that stay are told to whoever ends the rest, whatever they have of the session.
func TestFindPeoplesAreSpared(t *testing.T) {
	h := table(t, "10 1 5 node s", "11 1 6 daemon d")
	h.dead(10)
	inLeaf(h, 10, 11)
	h.usedBy(map[int]int{11: 3})
	h.Self = 0
	for _, f := range find(h, Rules{}) {
		if f.Class == classRecord && slices.Equal(f.group.Spared, []proc.ID{h.proc(11).ID}) {
			return
		}
	}
	t.Error("the daemon is not spared")
}
