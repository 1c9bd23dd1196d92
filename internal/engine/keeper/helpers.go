package keeper

import (
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Dial connects to the engine. The lock keeps a teardown from seeing a helper before it is known as one.
func (k *Keeper) Dial() (net.Conn, error) {
	if k.endpoint.Helper() != "" {
		k.mu.Lock()
		defer k.mu.Unlock()
	}
	return k.endpoint.Dial(dialTimeout, k.addHelper)
}

// addHelper remembers a helper, and forgets those whose sessions (setsid(2)) have no process left, or whose pid another
// process has.
func (k *Keeper) addHelper(pid int) {
	all, err := k.reader.Descendants(os.Getpid())
	if err == nil {
		left := k.helpers[:0]
		for _, id := range k.helpers {
			if hasSession(all, id) {
				left = append(left, id)
			}
		}
		k.helpers = left
	}
	if st, err := k.reader.Stat(pid); err == nil {
		k.helpers = append(slices.Clip(k.helpers), st.ID)
	}
}

// hasSession reports whether a process of the table is in the session of this leader, and none has taken the leader's pid.
func hasSession(all []proc.Stat, leader proc.ID) (has bool) {
	for _, p := range all {
		if p.PID == leader.PID && p.Start != leader.Start {
			return false
		}
		has = has || p.Session == leader.PID
	}
	return has
}

// Helpers are the processes through which an engine elsewhere is reached, which are no members of the session.
func (k *Keeper) Helpers() []proc.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.helpers)
}

// endHelpers ends our helpers and what they have started. They would end by themselves, because no process holds their
// connections any more, but perhaps after us. What they leave falls to us. Nothing shows whose that is, unless it was seen
// below them. The number of one that has ended may be that of another session, so nothing is done for that one.
func (k *Keeper) endHelpers() {
	helpers := k.Helpers()
	if len(helpers) == 0 {
		return
	}
	if k.members != nil {
		k.members()
	}
	all, _ := k.reader.Descendants(os.Getpid()) // what cannot be listed ends by itself
	for _, id := range helpers {
		if k.reader.Life(id) != proc.Alive {
			continue
		}
		for _, p := range all {
			if p.Session == id.PID {
				_ = k.reader.Signal(p.ID, unix.SIGKILL)
			}
		}
	}
}
