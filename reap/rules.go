package reap

import "mcp-tether/internal/clients"

// Rules are what the user may choose about finding.
type Rules struct {
	// Match reports whether a process runs a known MCP server, and gives the server's name.
	Match func(clients.Running) (name string, ok bool)
	// SurplusOver is how many servers of one kind a gateway may have.
	SurplusOver int
	// KeepNothing ends what is kept of dead sessions as well.
	KeepNothing bool
	// Session limits the pass to one session id; "" means all.
	Session string
}

// find applies the rules to a machine. It is pure but for the questions that the machine answers, and never names a process
// twice.
func find(h *machine, r Rules) []Finding {
	x := newIndex(h, r)
	var out []Finding
	if !h.Blind {
		out = append(out, x.records()...)
		// What a leaf proves needs no proof by its mark. Of what it does not prove, the marks may.
		out = append(out, x.leaves(true)...)
		out = append(out, x.marks()...)
		out = append(out, x.leaves(false)...)
		out = append(out, x.labelled()...)
	}
	if r.Session == "" {
		out = append(out, x.unwrapped()...)
		out = append(out, x.surplusSessions()...)
	}
	return append(append(out, x.suspects...), x.keptForPeople()...)
}

// wants reports whether a session is one that the user asked for.
func (x *index) wants(session string) bool { return x.r.Session == "" || x.r.Session == session }
