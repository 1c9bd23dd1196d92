package live

// fold makes one session of a front and the session behind it, as the user has started one. The processes are those of the
// session behind. The sessions are in the order of their starts.
func fold(all []Session) []Session {
	behind, fronts := map[string]Session{}, map[string]bool{}
	for _, l := range all {
		if l.Behind != "" {
			behind[l.Behind] = l // An earlier one that is still ending stays apart.
		}
		fronts[l.ID] = true
	}
	var out []Session
	for _, l := range all {
		b, replaced := behind[l.ID]
		switch {
		case replaced:
			out = append(out, b.under(l))
		case fronts[l.Behind] && behind[l.Behind].ID == l.ID:
		default:
			out = append(out, l)
		}
	}
	return out
}

// under is the session behind a front, as that of the front.
func (l Session) under(front Session) Session {
	own := l.Record
	l.Record = front.Record
	l.Server, l.Anchor, l.Cgroup = own.Server, own.Anchor, own.Cgroup
	l.Engine, l.EngineUsed, l.Socket = own.Engine, own.EngineUsed, own.Socket
	l.Keep = own.Keep
	l.AgeSeconds, l.Sharing, l.behind = front.AgeSeconds, front.Sharing, own.ID
	l.GatewayState, l.GatewayCommand = front.GatewayState, front.GatewayCommand
	return l
}
