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
func (x *index) unwrapped() []Finding {
	if x.r.Match == nil {
		return nil
	}
	var (
		out  []Finding
		seen = map[int]bool{}
		kept surplus
	)
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		if x.spared(p) || p.Keeps || !x.mine(p) || isTether(p) {
			continue
		}
		name, ok := x.serverOf(p)
		if !ok {
			continue
		}
		top := x.top(p)
		if seen[top.PID] || x.spared(top) || top.Keeps || x.tethered(top) || !x.h.Inside(top.PID) {
			continue
		}
		seen[top.PID] = true
		g, known := x.liveGateway(top)
		if g != nil {
			if f, ok := x.drop(g, top, name); ok {
				out = append(out, f)
			} else {
				x.surplusServer(&kept, g, top, name)
			}
			continue
		}
		if f, ok := x.orphan(top, name, known); ok {
			out = append(out, f)
		}
	}
	return append(out, kept.over(x.r.SurplusOver)...)
}

// serverOf is the known server that a process runs, by its command line.
func (x *index) serverOf(p *process) (name string, ok bool) {
	return x.r.Match(clients.Running{UID: p.UID, Args: p.Args})
}

// top climbs from a server to the topmost launcher of its user that was started for it. One of another user (sudo, su)
// cannot be read, and is not ours to end.
func (x *index) top(p *process) *process {
	for range maxClimb {
		up := x.parent(p)
		if up == nil || up.PID <= 1 || up.UID != p.UID || adoptsOrphans(up) || x.callers[up.PID] {
			return p
		}
		_, matched := x.serverOf(up)
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
// reached otherwise, or whose answers go elsewhere, may be in use: a job without a gateway may have given it one request, as
// "echo request | server >file" in a script of systemd.
func (x *index) orphan(top *process, name string, known bool) (Finding, bool) {
	f := Finding{Class: classSevered, UID: top.UID, Gateway: gateway{State: proc.Dead.String()}}
	in := x.h.Stdin(top.PID)
	f.Evidence = []string{fmt.Sprintf("no gateway among its ancestors (parent is pid %d)", top.PPID), in.Why}
	isProven := known && in.Far == evidence.Severed
	if !known {
		f.Evidence = append(f.Evidence, "an ancestor of it cannot be seen")
	}
	if in.Far == evidence.Severed {
		if used := x.inUse(x.serverTree(top), in); used != "" {
			isProven, f.Evidence = false, append(f.Evidence, used)
		}
	}
	if !isProven {
		f.Gateway.State = proc.Unknown.String()
		f.doubt(adviceLook)
		if holder := x.h.Holder(in); holder > 0 {
			if x.inLine(x.parent(top), func(a *process) bool { return a.PID == holder }) {
				return f, false
			}
			f.Evidence = append(f.Evidence, fmt.Sprintf("pid %d holds the other end", holder))
		}
	}
	return x.server(f, top, name)
}

// server completes the finding of a server by its topmost process.
func (x *index) server(f Finding, top *process, name string) (Finding, bool) {
	x.fill(&f, []*process{top}, false)
	f.Name, f.Top, f.Command = name, top.ID, session.Redact(top.Args)
	return f, len(f.Members) > 0
}

// serverTree are the processes by which a server can be reached or asked.
type serverTree struct {
	h *machine
	// pids are those by whose sockets it can be reached: all of its tree but browsers, which listen for themselves. A start script
	// may be known as the server, and its child be what listens. whole is the tree that they are in.
	pids, whole []int
	// servers are the topmost process and the known servers below it that no other one has started: "sh -c 'tail -F queue | server'"
	// has one whose standard input is not the shell's.
	servers []*process
}

func (x *index) serverTree(top *process) *serverTree {
	d := &serverTree{h: x.h, pids: []int{top.PID}, servers: []*process{top}}
	for _, p := range x.tree(d.servers, extent{uid: top.UID}) {
		d.whole = append(d.whole, p.PID)
		if p != top && !x.inBrowser(p, top) {
			d.pids = append(d.pids, p.PID)
		}
		if _, known := x.serverOf(p); known && p != top && !x.belowServer(p, top) {
			d.servers = append(d.servers, p)
		}
	}
	return d
}

// belowServer reports whether another known server, up to top, has started a process.
func (x *index) belowServer(p, top *process) bool {
	for a := range x.line(x.parent(p)) {
		if _, known := x.serverOf(a); known && !proc.IsLauncher(a.Comm) {
			return true
		}
		if a == top {
			return false
		}
	}
	return false
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
func (d *serverTree) reached() string { return d.h.Reached(d.pids, d.whole) }
