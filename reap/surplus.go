package reap

import (
	"fmt"
	"strings"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// surplus counts servers by their kind and their living gateway, in the order in which they were found.
type surplus struct {
	of    map[string]*Finding
	order []*Finding
}

// add counts one server, with its processes. what says in words what is counted, and advice what to do about too many.
func (s *surplus) add(kind string, first Finding, members []proc.ID, what, advice string) {
	key := first.Gateway.ID.String() + "\x00" + kind
	f := s.of[key]
	if f == nil {
		if s.of == nil {
			s.of = map[string]*Finding{}
		}
		f = &first
		f.Class, f.Advice = classSurplus, advice
		s.of[key], s.order = f, append(s.order, f)
	}
	f.Count++
	f.Members = append(f.Members, members...)
	f.Evidence = []string{fmt.Sprintf("%d %s of this kind under one living gateway (pid %d)", f.Count, what, f.Gateway.PID)}
}

// over are the kinds of which there are too many.
func (s *surplus) over(most int) (out []Finding) {
	for _, f := range s.order {
		if f.Count > most {
			out = append(out, *f)
		}
	}
	return out
}

// surplusServer counts a server that was never wrapped.
func (x *index) surplusServer(s *surplus, gateway, top *process, name string) {
	first := Finding{UID: top.UID, Top: top.ID, Command: session.Redact(top.Args), Gateway: x.gateway(gateway.ID)}
	first.Name = name
	var members []proc.ID
	for _, m := range x.tree([]*process{top}, extent{uid: top.UID}) {
		members = append(members, m.ID)
	}
	s.add(name, first, members, "servers", "the gateway starts a server for each session and lets none go: restart it when it is idle, and put "+
		"'mcp-tether run --hibernate 10m --' before the command so that servers end with their session and idle ones sleep")
}

// surplusSessions finds gateways that have too many living sessions with the same command.
func (x *index) surplusSessions() []Finding {
	var all surplus
	for i := range x.h.Sessions {
		s := &x.h.Sessions[i]
		// A front has no server itself. One without a state has no record yet, or none that can be read.
		if !s.Held || s.State == "" || s.Server.Zero() || s.Host != x.h.Host {
			continue
		}
		first := Finding{UID: s.UID, Top: s.Server, Command: s.Args, Gateway: x.gateway(s.Gateway)}
		first.Name = s.Name
		all.add(strings.Join(s.Args, "\x00"), first, []proc.ID{s.Server}, "living sessions",
			"the gateway lives and keeps these sessions open: end those you know to be idle with mcp-tether stop, or let idle ones sleep: run --hibernate")
	}
	return all.over(x.r.SurplusOver)
}
