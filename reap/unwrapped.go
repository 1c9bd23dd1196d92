package reap

import (
	"fmt"
	"slices"
	"strings"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// unwrapped finds known servers that were never wrapped, by their topmost process. It finds those without a gateway,
// those that a living gateway has dropped, and those of which it has too many.
func (x *index) unwrapped(r Rules) []Finding {
	if r.Match == nil {
		return nil
	}
	var (
		out   []Finding
		seen  = map[int]bool{}
		under = map[string]*Finding{}
		order []string
	)
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		if x.spared(p) || p.Keeps || !x.mine(p) || isTether(p) {
			continue
		}
		name, ok := serverOf(p, &r)
		if !ok {
			continue
		}
		top := x.top(p, r)
		if seen[top.PID] || x.spared(top) || top.Keeps || x.tethered(top) || !x.h.Inside(top.PID) {
			continue
		}
		seen[top.PID] = true
		g, known := x.liveGateway(top)
		if g != nil {
			if f, ok := x.drop(g, top, name, r); ok {
				out = append(out, f)
			} else {
				x.countUnder(g, top, name, under, &order)
			}
			continue
		}
		if f, ok := x.orphan(top, name, known, r); ok {
			out = append(out, f)
		}
	}
	for _, key := range order {
		if f := under[key]; f.Count > r.SurplusOver {
			out = append(out, *f)
		}
	}
	return out
}

// serverOf is the known server that a process runs, by its command line.
func serverOf(p *process, r *Rules) (name string, ok bool) {
	return r.Match(clients.Running{UID: p.UID, Args: p.Args})
}

// top climbs from a server to the topmost launcher of its user that was started for it. One of another user (sudo, su)
// cannot be read, and is not ours to end.
func (x *index) top(p *process, r Rules) *process {
	for range maxClimb {
		up := x.parent(p)
		if up == nil || up.PID <= 1 || up.UID != p.UID || adoptsOrphans(up) || x.ancestors[up.PID] {
			return p
		}
		_, matched := serverOf(up, &r)
		if !matched && !(proc.IsLauncher(up.Comm) && clients.Mentions(up.Args, p.Args)) {
			return p
		}
		p = up
	}
	return p
}

// adoptsOrphans reports whether it is the task of a process to adopt orphans: then being its child says nothing.
func adoptsOrphans(p *process) bool {
	switch p.Comm {
	case "systemd", "init", "launchd", "tini", "docker-init", "dumb-init", "catatonit", "s6-svscan", "runsvdir", "containerd-shim":
		return true
	}
	return p.PID == 1
}

// liveGateway is the nearest ancestor that neither launches nor adopts. known is false when the way up leads to a
// process that is not in the table. Such a process is hidden, outside of the pid namespace, or ended while the table
// was read.
func (x *index) liveGateway(top *process) (g *process, known bool) {
	for a := range x.line(top) {
		if a != top && !adoptsOrphans(a) && !proc.IsLauncher(a.Comm) {
			return a, true
		}
		if a.PPID == 1 || a.PID == 1 {
			return nil, true
		}
	}
	return nil, false
}

// orphan judges a server without a gateway among its ancestors by the other end of its standard input. One that can be
// reached otherwise, or whose answers go elsewhere, may be in use.
func (x *index) orphan(top *process, name string, known bool, r Rules) (Finding, bool) {
	f := Finding{Class: classSevered, Name: name, UID: top.UID, Gateway: gateway{State: proc.Dead.String()}}
	f.Evidence = []string{fmt.Sprintf("no gateway among its ancestors (parent is pid %d)", top.PPID)}
	in := x.h.Stdin(top.PID)
	f.Evidence = append(f.Evidence, in.Why)
	if !known {
		f.Evidence = append(f.Evidence, "an ancestor of it cannot be seen")
	}
	used := ""
	if in.Far == evidence.Severed {
		// A job without a gateway may have given it one request: "echo request | server >file" in a script of systemd.
		used = x.inUse(x.doors(top, r), in)
		if used != "" {
			f.Evidence = append(f.Evidence, used)
		}
	}
	if in.Far != evidence.Severed || !known || used != "" {
		f.Class, f.Gateway.State = classSuspect, proc.Unknown.String()
		f.Advice = "not proven: look at it, and end it by hand if no process needs it"
		if holder := x.h.Holder(in); holder > 0 {
			if x.isAncestor(holder, top) {
				return f, false
			}
			f.Evidence = append(f.Evidence, fmt.Sprintf("pid %d holds the other end", holder))
		}
	}
	x.fill(&f, []*process{top}, false)
	f.Top, f.Command = top.ID, session.Redact(top.Args)
	return f, len(f.Members) > 0
}

// doors are the processes by which a server can be reached or asked.
type doors struct {
	h *machine
	// pids are those by whose sockets it can be reached: all of its tree but browsers, which listen for themselves. A start script
	// may be known as the server, and its child be what listens. whole is the tree that they are in.
	pids, whole []int
	// servers are the topmost process and the known servers below it that no other one has started: "sh -c 'tail -F queue | server'"
	// has one whose standard input is not the shell's.
	servers []*process
}

func (x *index) doors(top *process, r Rules) *doors {
	d := &doors{h: x.h, pids: []int{top.PID}, servers: []*process{top}}
	for _, p := range x.tree(d.servers, extent{uid: top.UID}) {
		d.whole = append(d.whole, p.PID)
		if p != top && !x.inBrowser(p, top) {
			d.pids = append(d.pids, p.PID)
		}
		if _, known := serverOf(p, &r); known && p != top && !x.belowServer(p, top, &r) {
			d.servers = append(d.servers, p)
		}
	}
	return d
}

// inBrowser reports whether a process is a browser, or was started by one below top.
func (x *index) inBrowser(p, top *process) bool {
	for a := range x.line(p) {
		if a == top {
			return false
		}
		if slices.ContainsFunc(browsers(), func(name string) bool { return strings.HasPrefix(a.Comm, name) }) {
			return true
		}
	}
	return false
}

// browsers begin the command names of browsers and of their helpers.
func browsers() []string {
	return []string{"chrome", "chromium", "headless_shell", "firefox", "msedge", "WebKit", "MiniBrowser"}
}

// reached says by which socket one of the processes can be reached; "" if none can.
func (d *doors) reached() string { return d.h.Reached(d.pids, d.whole) }

// isAncestor reports whether a pid is that of an ancestor of a process.
func (x *index) isAncestor(pid int, of *process) bool {
	for a := range x.line(x.parent(of)) {
		if a.PID == pid {
			return true
		}
	}
	return false
}
