package reap

import (
	"fmt"
	"slices"

	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
)

// drop judges a server under a living gateway. The gateway has no use for a server that cannot be reached, to whose
// standard input no process can write any more, and whose output nobody reads. One that is asked a single question, as by
// subprocess.run of Python, has its end of input while the gateway waits for the answer. The gateway may be about to end the
// server, so it is given time (settleDropped).
func (x *index) drop(g, top *process, name string) (Finding, bool) {
	f := Finding{Class: classDropped, UID: top.UID, Gateway: x.gateway(g.ID)}
	in := x.h.Stdin(top.PID)
	if in.Far != evidence.Severed {
		return f, false
	}
	tree := x.serverTree(top)
	if x.inUse(tree, in) != "" {
		return f, false
	}
	f.Evidence = []string{fmt.Sprintf("its gateway (pid %d) lives and has let go of it", g.PID), in.Why}
	f.still = func() bool {
		return x.h.Lives(top.ID) == proc.Alive && tree.otherInput(in) == 0 && tree.reached() == ""
	}
	return x.server(f, top, name)
}

// inUse says how servers may be in use although no process can write to the standard input of the topmost process, which
// is in; "" if they are not.
func (x *index) inUse(d *serverTree, in evidence.Stdin) string {
	if why := d.reached(); why != "" {
		return why
	}
	if pid := d.otherInput(in); pid > 0 {
		return fmt.Sprintf("pid %d has another standard input", pid)
	}
	if x.answers(d.servers) {
		return "its output goes to a terminal, a file or another process"
	}
	return ""
}

// otherInput is the pid of a server whose standard input is not in, or is not severed any more; 0 for none.
func (d *serverTree) otherInput(in evidence.Stdin) int {
	for _, p := range d.servers {
		if now := d.h.Stdin(p.PID); now.Far != evidence.Severed || now.Peer != in.Peer {
			return p.PID
		}
	}
	return 0
}

// answers reports whether servers, the topmost process first, may be at work for a process that is not below that one.
// They may be if an output goes to a terminal or a file, or has a reader elsewhere. Examples are "echo request | server |
// reader", "answer=$(echo request | server)" and systemd-journald.
func (x *index) answers(servers []*process) bool {
	below := map[int]bool{servers[0].PID: true}
	for _, p := range x.tree(servers[:1], extent{uid: -1, newborns: true}) {
		below[p.PID] = true
	}
	for _, p := range servers {
		elsewhere, readers := x.h.Stdout(p.PID)
		if elsewhere || slices.ContainsFunc(readers, func(pid int) bool { return !below[pid] }) {
			return true
		}
	}
	return false
}
