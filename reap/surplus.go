package reap

import (
	"fmt"
	"strings"

	"mcp-tether/internal/session"
)

// countUnder adds a server to the count of its kind under a living gateway.
func (x *index) countUnder(g, top *process, name string, under map[string]*Finding, order *[]string) {
	key := g.ID.String() + "\x00" + name
	f := under[key]
	if f == nil {
		f = &Finding{Class: classSurplus, Name: name, UID: top.UID, Top: top.ID, Command: session.Redact(top.Args)}
		f.Gateway = x.gateway(g.ID)
		f.Advice = surplusAdvice
		under[key] = f
		*order = append(*order, key)
	}
	f.Count++
	for _, m := range x.tree([]*process{top}, extent{uid: top.UID}) {
		f.Members = append(f.Members, m.ID)
	}
	f.Evidence = []string{fmt.Sprintf("%d servers of this kind under one living gateway (pid %d)", f.Count, g.PID)}
}

const surplusAdvice = "the gateway starts a server for each session and lets none go: restart it when it is idle, and put " +
	"'mcp-tether run --hibernate 10m --' before the command so that servers end with their session and idle ones sleep"

// surplusSessions finds gateways that have too many living sessions with the same command.
func (x *index) surplusSessions(r Rules) []Finding {
	kinds := map[string]*Finding{}
	var order []string
	for i := range x.h.Sessions {
		s := &x.h.Sessions[i]
		// A front has no server itself. One without a state has no record yet, or none that can be read.
		if !s.Held || s.State == "" || s.Server.Zero() || s.Host != x.h.Host {
			continue
		}
		key := s.Gateway.String() + "\x00" + strings.Join(s.Args, "\x00")
		f := kinds[key]
		if f == nil {
			f = &Finding{Class: classSurplus, Name: s.Name, UID: s.UID, Top: s.Server, Command: s.Args, Gateway: x.gateway(s.Gateway)}
			f.Advice = "the gateway lives and keeps these sessions open: end those you know to be idle with mcp-tether stop, " +
				"or let idle ones sleep: run --hibernate"
			kinds[key] = f
			order = append(order, key)
		}
		f.Count++
		f.Members = append(f.Members, s.Server)
		f.Evidence = []string{fmt.Sprintf("%d living sessions of this kind under one gateway (pid %d)", f.Count, s.Gateway.PID)}
	}
	var out []Finding
	for _, key := range order {
		if kinds[key].Count > r.SurplusOver {
			out = append(out, *kinds[key])
		}
	}
	return out
}
