package teardown

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// Killer ends processes: it asks each once, and kills until none is left.
type Killer struct {
	// Members looks for living processes: those to end, and those to keep. With an error others may be there.
	Members func() (end, kept []proc.Stat, err error)
	// Leaves are the cgroups that the kernel may kill as a whole: the last look has found nothing to keep there.
	Leaves func() []*cgroup.Leaf
	// Cleanup is how long conmon may clean up after its container, once the others are killed; at most maxCleanup.
	Cleanup time.Duration

	reader proc.Reader
	// asked are the pids of those that were asked. askedAt is when the first time was over, in clock ticks; 0 before.
	asked   map[int]bool
	askedAt uint64
	// cleanUntil is the end of the time that conmon has; zero before that began.
	cleanUntil time.Time
	// left counts the members of the last look, and forks says that one has started since they were asked.
	left  int
	forks bool
}

// Sent is one signal and what became of it.
type Sent struct {
	To  proc.Stat
	Sig syscall.Signal
	// Err is nil, or says why the signal did not reach the process. One that was gone already is left out.
	Err error
}

// askLooks bounds the looks before the first SIGTERM, against a tree that forks meanwhile.
const askLooks = 4

// Ask asks every member to end: SIGTERM, then SIGCONT so that a stopped one can act on it.
//
// The first call looks until no new member turns up, and then asks all of them. A process whose parent ends while the
// table is read is reparented, and may be missed once. A process that starts later is not asked, because it
// may be a member's answer to SIGTERM, to clean up. A later call asks only older members that were missed all the same.
func (k *Killer) Ask() (sent []Sent, err error) {
	first := k.askedAt == 0
	if k.asked == nil {
		k.asked = map[int]bool{}
	}
	var fresh []proc.Stat
	for n := range askLooks {
		var end []proc.Stat
		end, err = k.look()
		news, spared := len(fresh), unasked(end, first)
		for _, m := range end {
			if !k.asked[m.PID] && !spared[m.PID] && (first || m.Start < k.askedAt) {
				k.asked[m.PID] = true
				fresh = append(fresh, m)
			}
		}
		// One look that finds nothing proves nothing: the only member may just have been reparented.
		if !first || n > 0 && len(fresh) == news {
			break
		}
	}
	if first && (err == nil || len(fresh) > 0) {
		k.askedAt, _ = proc.Now()
	}
	return signalAll(&k.reader, fresh, unix.SIGTERM, unix.SIGCONT), err
}

// look looks for the members.
func (k *Killer) look() ([]proc.Stat, error) {
	end, _, err := k.Members()
	k.left = len(end)
	k.forks = k.forks || k.askedAt > 0 && slices.ContainsFunc(end, func(m proc.Stat) bool { return m.Start > k.askedAt })
	return end, err
}

// Kill sends SIGKILL to every member once: first through the cgroups, then one by one. These are stopped before, so that none
// forks away. Call it again until nothing is left.
func (k *Killer) Kill() ([]Sent, error) {
	end, err := k.look()
	if others, waits := k.others(end); waits {
		return signalAll(&k.reader, others, unix.SIGKILL), err
	}
	var byLeaf []proc.Stat
	for _, leaf := range k.Leaves() {
		if leaf.Kill() == nil {
			byLeaf = end
		}
	}
	end, err = k.stop(end, err)
	return addKilled(signalAll(&k.reader, end, unix.SIGKILL), byLeaf), err
}

// addKilled adds the processes that were killed with their cgroup. Those that are gone since have got no further signal.
func addKilled(sent []Sent, byLeaf []proc.Stat) []Sent {
	known := make(map[int]bool, len(sent))
	for _, x := range sent {
		known[x.To.PID] = true
	}
	for _, m := range byLeaf {
		if !known[m.PID] {
			sent = append(sent, Sent{m, unix.SIGKILL, nil})
		}
	}
	return sent
}

// stopTime is for how long to look for a fixed point while the tree forks.
const stopTime = 500 * time.Millisecond

// stop stops members until a look finds no other, and returns those of the last look. A process may execute another program
// between the look and its stop, and be one to keep from then on: what is no member any more is continued.
func (k *Killer) stop(members []proc.Stat, err error) ([]proc.Stat, error) {
	stopped, began := make(map[proc.ID]bool, len(members)), time.Now()
	for time.Since(began) < stopTime {
		fresh := slices.DeleteFunc(slices.Clone(members), func(m proc.Stat) bool { return stopped[m.ID] })
		if len(fresh) == 0 {
			break
		}
		for _, m := range fresh {
			stopped[m.ID] = true
		}
		signalAll(&k.reader, fresh, unix.SIGSTOP)
		var next []proc.Stat
		if next, err = k.look(); err != nil && len(next) == 0 {
			break
		}
		members = next
	}
	for _, m := range members {
		delete(stopped, m.ID)
	}
	for id := range stopped {
		_ = k.reader.Signal(id, unix.SIGCONT)
	}
	return members, err
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

// Survivor is a member that could not be ended, for the closing log event.
type Survivor struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
	UID  int    `json:"uid"`
	// Why says what stood in the way.
	Why string `json:"why"`
}

// lastLooks is how many looks in a row may find members that have ended before they can be signalled. Such members have not
// survived, but may have started others in between. After that many looks, the tree counts as one that goes on forking.
const lastLooks = 4

// Survivors names the members that are left after the last SIGKILL, and sends them another.
func (k *Killer) Survivors() (out []Survivor, kept []proc.Stat, err error) {
	out = []Survivor{}
	for n := 1; ; n++ {
		var end []proc.Stat
		end, kept, err = k.Members()
		gone := false
		for _, m := range end {
			err := k.reader.Signal(m.ID, syscall.SIGKILL)
			if errors.Is(err, proc.ErrGone) && n < lastLooks {
				gone = true
				continue
			}
			out = append(out, survivor(m, why(m, err)))
		}
		if len(out) > 0 || !gone {
			return out, kept, err
		}
	}
}

func survivor(p proc.Stat, why string) Survivor {
	uid, _ := proc.UID(p.PID)
	return Survivor{p.PID, p.Comm, uid, why}
}

func why(m proc.Stat, err error) string {
	switch {
	case errors.Is(err, proc.ErrGone):
		return "it has ended, but its tree starts others all the time"
	case err != nil:
		return err.Error()
	case m.State == 'D':
		return "in uninterruptible sleep (state D): it ends when the kernel lets it"
	}
	return "still ending after SIGKILL"
}

// keptLooks bounds the looks at what kept processes have started in the leaf meanwhile.
const keptLooks = 4

// RemoveLeaf moves the kept processes out of a leaf, and removes it: the kernel may need so many milliseconds to let go of it. A session
// that one of them has started loses its own leaf below.
func (k *Killer) RemoveLeaf(leaf *cgroup.Leaf, tries int) error {
	for range keptLooks {
		if populated, err := leaf.Populated(); err == nil && !populated {
			break
		}
		_, kept, _ := k.Members()
		for _, p := range kept {
			_ = leaf.Expel(p.PID) // A leaf that cannot be removed says so.
		}
		if len(kept) == 0 {
			break
		}
	}
	return leaf.RemoveSoon(tries)
}
