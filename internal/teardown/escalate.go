package teardown

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"mcp-tether/internal/proc"
)

// Sent is one signal and what became of it.
type Sent struct {
	To  proc.Stat
	Sig syscall.Signal
	// Err is nil, or says why the signal did not reach the process. One that was gone already is left out.
	Err error
}

// Terminate asks every member to end: SIGTERM, then SIGCONT so that a stopped one can act on it.
//
// The first call looks until no new member turns up, and then asks all of them. A process whose parent ends while the
// tree is read is reparented to the root, and may be missed once. A process that starts later is not asked, because it
// may be a member's answer to SIGTERM, to clean up. A later call asks only older members that were missed all the same.
// conmon would pass the signal on to its container, which is asked itself.
//
// server is the child that the caller has not waited for yet, or 0. It is asked even when /proc cannot be read.
func (s *Scope) Terminate(server int) []Sent {
	first := s.asked == nil
	if first {
		s.asked = map[proc.ID]bool{}
	}
	var fresh []proc.Stat
	for n := range termSweeps {
		members, _, err := s.Members()
		if first && server > 0 && noneListed(members, err) {
			return s.signalServer(server, syscall.SIGTERM, syscall.SIGCONT)
		}
		news := len(fresh)
		for _, m := range members {
			if !s.asked[m.ID] && m.Comm != "conmon" && (first || m.Start < s.askedAt) {
				s.asked[m.ID] = true
				fresh = append(fresh, m)
			}
		}
		// One look that finds nothing proves nothing: the only member may just have been reparented to the root.
		if !first || n > 0 && len(fresh) == news {
			break
		}
	}
	if first {
		s.askedAt, _ = proc.Now()
	}
	return signalAll(&s.reader, fresh, syscall.SIGTERM, syscall.SIGCONT)
}

// termSweeps bounds the looks before the first SIGTERM, against a tree that forks meanwhile.
const termSweeps = 4

// noneListed reports whether a look has failed to list any process.
func noneListed(members []proc.Stat, err error) bool { return err != nil && len(members) == 0 }

// How often, and for how long, to look for a fixed point while the tree forks.
const (
	maxSweeps = 64
	sweepTime = 500 * time.Millisecond
)

// Kill sends SIGKILL to every member once: to the cgroup as a whole, then to all processes below the root. Those are
// stopped first, so that none forks away. Call it again until nothing is left. With a process to keep, the cgroup is
// not killed as a whole, because the kernel makes no exception.
func (s *Scope) Kill(server int) []Sent {
	members, kept, err := s.Members()
	if sent, waits := s.killOthers(members); waits {
		return sent
	}
	// If the processes cannot be listed now, a process to keep would have been seen earlier.
	var byLeaf []proc.Stat
	if s.Leaf != nil && len(kept) == 0 && (err == nil || len(s.kept)+len(s.Keep) == 0) && s.Leaf.Kill() == nil {
		byLeaf = members
	}
	if server > 0 && noneListed(members, err) {
		return s.signalServer(server, syscall.SIGKILL)
	}
	return addKilled(signalAll(&s.reader, s.stopAll(members), syscall.SIGKILL), byLeaf)
}

// addKilled adds the processes that were killed with their cgroup. Those that are gone since have got no further signal.
func addKilled(sent []Sent, byLeaf []proc.Stat) []Sent {
	known := make(map[int]bool, len(sent))
	for _, x := range sent {
		known[x.To.PID] = true
	}
	for _, m := range byLeaf {
		if !known[m.PID] {
			sent = append(sent, Sent{m, syscall.SIGKILL, nil})
		}
	}
	return sent
}

// stopAll stops members until no unstopped one turns up, and returns all of them.
func (s *Scope) stopAll(members []proc.Stat) []proc.Stat {
	return stopAll(&s.reader, members, func() ([]proc.Stat, error) {
		members, _, err := s.Members()
		return members, err
	})
}

// stopAll stops members until look finds no other, and returns those of the last look. A process may execute another program between
// the look and its stop, and be one to keep from then on: what is no member any more is continued.
func stopAll(r *proc.Reader, members []proc.Stat, look func() ([]proc.Stat, error)) []proc.Stat {
	stopped, began := make(map[proc.ID]bool, len(members)), time.Now()
	for n := 0; n < maxSweeps && time.Since(began) < sweepTime; n++ {
		fresh := slices.DeleteFunc(slices.Clone(members), func(m proc.Stat) bool { return stopped[m.ID] })
		if len(fresh) == 0 {
			break
		}
		for _, m := range fresh {
			stopped[m.ID] = true
		}
		signalAll(r, fresh, syscall.SIGSTOP)
		next, err := look()
		if noneListed(next, err) {
			break
		}
		members = next
	}
	for _, m := range members {
		delete(stopped, m.ID)
	}
	for id := range stopped {
		_ = r.Signal(id, syscall.SIGCONT)
	}
	return members
}

// signalAll sends the signals to each of the processes.
func signalAll(r *proc.Reader, to []proc.Stat, sigs ...syscall.Signal) []Sent {
	sent := make([]Sent, 0, len(to))
	for _, m := range to {
		err := r.Signal(m.ID, sigs...)
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		sent = append(sent, Sent{m, sigs[0], err})
	}
	return sent
}

// signalServer signals the server when nothing can be listed (no /proc), unless it is known to be kept.
func (s *Scope) signalServer(server int, sigs ...syscall.Signal) (sent []Sent) {
	for id := range s.kept {
		if id.PID == server {
			return nil
		}
	}
	for _, sig := range sigs {
		st := proc.Stat{ID: proc.ID{PID: server}, Comm: "server"}
		sent = append(sent, Sent{st, sig, proc.SignalChild(server, sig)})
	}
	return sent
}
