package reap

import (
	"fmt"

	"mcp-tether/proc"
	"mcp-tether/session"
)

// drop judges a server under a living gateway. The gateway has no use for a server that cannot be reached, and to whose
// standard input no process can write any more. It may be about to end the server, so it is given time (settleDropped).
func (x *index) drop(g, top *process, name string, r Rules) (Finding, bool) {
	f := Finding{Class: classDropped, Name: name, UID: top.UID, Gateway: x.gateway(g.ID)}
	in := x.h.Stdin(top.PID)
	if in.Far != proc.Severed {
		return f, false
	}
	doors := x.doors(top, r)
	if doors.reached() != "" || x.answers(top, g) {
		return f, false
	}
	f.Evidence = []string{fmt.Sprintf("its gateway (pid %d) lives and has let go of it", g.PID), in.Why}
	x.fill(&f, []*process{top}, scope{uid: top.UID, sessions: true})
	f.Top, f.Command = top.ID, session.Redact(top.Args)
	f.still = func() bool {
		now := x.h.Stdin(top.PID)
		return x.h.Lives(top.ID) == proc.Alive && now.Far == proc.Severed && doors.reached() == ""
	}
	return f, len(f.Members) > 0
}

// answers reports whether a server may be at work for a process that is not its gateway. It may be if its output goes
// to a terminal or a file. It may also be if a reader of its output is neither its gateway g nor below it. Examples are
// "echo request | server | reader", "answer=$(echo request | server)" and systemd-journald. g is nil for none.
func (x *index) answers(top, g *process) bool {
	elsewhere, readers := x.h.Stdout(top.PID)
	below := map[int]bool{top.PID: true}
	for _, p := range x.tree([]*process{top}, scope{uid: -1, sessions: true, newborns: true}) {
		below[p.PID] = true
	}
	for _, pid := range readers {
		if !below[pid] && (g == nil || g.PID != pid) {
			return true
		}
	}
	return elsewhere
}
