package reap

import (
	"fmt"

	"mcp-tether/internal/proc"
)

// records finds the sessions whose lease is free: their supervisor is dead. The server belongs to the session, and so does
// every process with its mark, every member of its leaf, and all below these.
func (x *index) records() []Finding {
	var out []Finding
	for i := range x.h.Sessions {
		s := &x.h.Sessions[i]
		if !x.wants(s.ID) || x.supervised(s.ID) || s.UID != x.h.UID {
			continue
		}
		if f, ok := x.record(s); ok {
			if f.born.IsZero() { // no container of it is left
				f.born = s.Started
			}
			out = append(out, f)
		}
	}
	return out
}

func (x *index) record(s *storedSession) (Finding, bool) {
	f := Finding{Class: classRecord, Session: s.ID, UID: s.UID, Command: s.Args, Gateway: x.gateway(s.Gateway)}
	f.Name, f.stored = s.Name, s
	leaf := x.leafOf(s.ID)
	switch {
	case s.Host.Boot != x.h.Boot && s.Host.Boot != "":
		f.empty, f.Gateway.State = true, proc.Dead.String()
		f.Evidence = []string{"its record is from another boot: every process of it ended then"}
		x.claim(&f)
		return f, true
	case s.Host != x.h.Host:
		f.Gateway.State = proc.Unknown.String()
		x.elsewhere(&f, leaf)
		return f, true
	case x.h.Lives(s.Anchor) == proc.Alive: // It is about to recover it.
		return f, false
	}
	f.Evidence = []string{"the lease of its record is free: its supervisor is dead"}
	if !s.Supervisor.Zero() {
		f.Evidence = []string{fmt.Sprintf("the lease of its record is free: the supervisor (pid %d) is dead", s.Supervisor.PID)}
	}
	tops, isInherited := x.ofSession(s)
	if leaf != nil {
		f.leaf = leaf.Dir
		f.Evidence = append(f.Evidence, "its cgroup is "+leaf.Dir)
		tops = append(tops, x.inLeaf(leaf)...)
	}
	if s.Supervisor.Zero() && x.keeping[s.ID] {
		// There is an empty record, or one that cannot be read, so none says what is to be kept.
		f.doubt(adviceKeep, keepUnclear)
	}
	if s.Unread != nil {
		f.Advice = adviceKeep + "; then remove its damaged record (--forget)"
	}
	f.group.Began, f.group.Inherited = s.Started, isInherited
	if !x.keepsNothing(s.ID) {
		f.group.Keep = s.Keep
	}
	x.fill(&f, tops, true)
	x.claim(&f)
	f.stays = x.keepsSome(s.ID)
	return f, !f.stays || len(f.Members)+len(f.Containers) > 0
}

// elsewhere judges a session of another pid namespace: processes here may have its numbers. What is left of it is a record and an
// empty cgroup, or it is a suspect. Its engine may be reached by another name here, so with containers it is not judged. Nor is a session
// of the first namespace: there is somebody to judge it, and from a container its cgroup may not be in sight.
func (x *index) elsewhere(f *Finding, leaf *cgroupLeaf) {
	s := f.stored
	inUse := leaf != nil && (len(leaf.PIDs) > 0 || leaf.Foreign)
	if s.Host.Boot != x.h.Boot || inUse || s.EngineUsed || s.Host.IsFirst() {
		f.doubt("run mcp-tether reap in that namespace; if it is gone: mcp-tether reap --forget "+s.ID,
			"the lease of its record is free, and it is of another pid namespace, or may be: its processes may be known by other numbers there")
		return
	}
	if leaf != nil {
		f.leaf = leaf.Dir
	}
	f.empty, f.Evidence = true, []string{"the lease of its record is free, it is of another pid namespace, and nothing is in a cgroup of it"}
}

// ofSession lists the server and the processes with the session's mark. It leaves out those that were started elsewhere,
// which the rule of the marks reports, and says whether there are any.
func (x *index) ofSession(s *storedSession) (tops []*process, elsewhere bool) {
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		switch {
		case !x.mine(p) || p.Mark != s.ID && p.ID != s.Server && !x.wasKept(p, s):
		case x.startedElsewhere(p, s):
			elsewhere = true
		default:
			tops = append(tops, p)
		}
	}
	if !s.Supervisor.Zero() {
		return tops, elsewhere
	}
	// The record is empty, so it is not known what was there before the session.
	tops, cared := x.byCare(s.ID, tops)
	return tops, elsewhere || len(cared) > 0
}

// startedElsewhere reports whether a process, or one above it, was started by a process that was there before the session
// and adopts no orphans. That one is no member: it has got the session's environment from a member, as the server of a
// terminal or an editor does. A service manager adopts orphans, but marks the services that it starts.
func (x *index) startedElsewhere(p *process, s *storedSession) bool {
	if s.Supervisor.Zero() {
		return p.Service
	}
	for a := range x.line(p) {
		up := x.parent(a)
		if a.ID != s.Server && a.Service {
			return true
		}
		if a.ID == s.Server || up == nil || x.adopts(up) || isTether(up) {
			return false
		}
		if up.Start < s.Supervisor.Start {
			return true
		}
	}
	return false
}
