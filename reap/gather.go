package reap

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"sync"
	"time"

	"mcp-tether/cgroup"
	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// gather reads the machine, and meanwhile what its container engines have. It calls warn for what had to be left out. The
// error says that nothing can be known.
func gather(xdgRuntime string, which Engines, warn func(error)) (*machine, error) {
	var r proc.Reader
	since, err := proc.Now()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	// In another namespace's table, signals would go to whichever process here has the number that was found.
	if err := proc.ReadsOwnTable(); err != nil {
		return nil, err
	}
	here, err := r.ReadHost()
	if err != nil {
		return nil, err
	}
	h := &machine{Host: here, UID: os.Getuid(), Self: os.Getpid(), Since: since, Began: began}
	listing := newEngineListing(h, which)
	if err := h.readTable(); err != nil {
		return nil, err
	}
	h.noteStuck()
	h.readSessions(xdgRuntime)
	listing.recorded()
	h.findLeaves(began, warn)
	h.addRecordedLeaves()
	h.ask(&r)
	listing.finish()
	return h, nil
}

// readTable reads the process table, with the marks of the processes that the pass may touch.
func (h *machine) readTable() error {
	all, err := evidence.Snapshot(h.UID, session.EnvID, session.EnvGateway, teardown.KeepName, serviceName, session.EnvKept)
	if err != nil {
		return err
	}
	h.Procs = make([]process, 0, len(all))
	for _, p := range all {
		marked := process{Process: p}
		if v := p.Env; v != nil {
			marked.Mark, marked.Gateway, marked.Keep, marked.Service = v[0], v[1], v[2] == "1", v[3] == strconv.Itoa(p.PID)
			marked.Keeps = marked.Mark != "" && v[4] != ""
		}
		if len(p.Args) > 0 && p.UID == h.UID {
			marked.Browser = teardown.BrowserOf(evidence.Program(p.PID), p.Args, os.TempDir())
		}
		marked.Env = nil
		h.Procs = append(h.Procs, marked)
	}
	return nil
}

// serviceName is the variable in which systemd tells the main process of a service its own pid (systemd.exec(5), since 248).
const serviceName = "SYSTEMD_EXEC_PID"

// ask sets up the questions that the rules may ask about single processes.
func (h *machine) ask(r *proc.Reader) {
	pids := make([]int, 0, len(h.Procs))
	for i := range h.Procs {
		pids = append(pids, h.Procs[i].PID)
	}
	h.Lives = r.Life
	h.Memory = func(pid int) uint64 { memory, _, _ := r.Usage(pid); return memory }
	h.Stdin = evidence.StdinOf
	h.Reached = evidence.Reached
	var sockets evidence.Sockets // read once
	h.User = func(pid int, inside []int) int {
		users, _ := sockets.Users([]int{pid}, inside)
		return users[pid]
	}
	ends := sync.OnceValue(func() evidence.Ends { return evidence.EndsOf(pids) })
	h.Stdout = func(pid int) (bool, []int) { return evidence.Stdout(pid, ends()) }
	h.Inside = func(pid int) bool {
		ns, err := proc.Readlink(proc.Path(pid, "ns/pid"))
		return err == nil && ns == fmt.Sprintf("pid:[%d]", h.PIDNS)
	}
	h.Holder = func(in evidence.Stdin) int {
		if holders := in.Holders(ends()); len(holders) > 0 {
			return holders[0]
		}
		return 0
	}
}

// noteStuck notes the user's processes of which nothing is known.
func (h *machine) noteStuck() {
	var stuck []string
	for i := range h.Procs {
		if p := &h.Procs[i]; p.Stuck && p.UID == h.UID {
			stuck = append(stuck, p.stuck())
		}
	}
	h.unknown(stuck, "processes")
}

// readSessions reads the records. The directories stay open until the pass ends.
func (h *machine) readSessions(xdgRuntime string) {
	stored, _, left := session.ReadAll(xdgRuntime)
	for _, err := range left {
		h.Unknown = append(h.Unknown, err.Error())
	}
	if h.Blind = len(left) > 0; h.Blind {
		h.Unknown = append(h.Unknown, "not all records can be read, so no session is judged: first mend what is named before")
	}
	var unread []string
	for _, s := range stored {
		if s.Unread != nil {
			unread = append(unread, fmt.Sprintf("%v (once nothing of it is left: mcp-tether reap --forget %s)", s.Unread, s.ID))
		}
		if s.Version == 0 {
			s.Record = session.Record{Version: session.Version, ID: s.ID, Host: h.Host, UID: h.UID}
		}
		h.Sessions = append(h.Sessions, storedSession{Stored: s})
	}
	h.unknown(unread, "records")
}

// unknown notes what could not be read, of one kind.
func (h *machine) unknown(whys []string, kind string) {
	named := min(len(whys), proc.MaxNamed)
	h.Unknown = append(h.Unknown, whys[:named]...)
	if more := len(whys) - named; more > 0 {
		h.Unknown = append(h.Unknown, fmt.Sprintf("%d more such %s", more, kind))
	}
}

// findLeaves finds our cgroups that are older than the pass. It takes a younger one if the lease of its session is free:
// that is proof enough.
func (h *machine) findLeaves(began time.Time, warn func(error)) {
	free := map[string]bool{}
	for _, s := range h.Sessions {
		free[s.ID] = !s.Held
	}
	found, err := cgroup.Find(session.ValidID)
	h.noteSearch(err, warn)
	for _, f := range found {
		if age := began.Sub(f.Made); f.UID == h.UID && (age > leafSettles || free[f.ID]) {
			h.addLeaf(f.Dir, f.ID, age > leafAbandoned)
		}
	}
}

// noteSearch reports what kept the search for leaves from finding all. Without cgroup v2 there are none.
func (h *machine) noteSearch(err error, warn func(error)) {
	switch {
	case errors.Is(err, cgroup.ErrNotSearched):
		h.Unknown = append(h.Unknown, err.Error())
	case err != nil && !errors.Is(err, cgroup.ErrNone):
		warn(err)
	}
}

// addRecordedLeaves adds the leaves that records of dead supervisors name, however young: the free lease is proof enough.
// A record counts only for a leaf of its own owner and id.
func (h *machine) addRecordedLeaves() {
	known := map[string]bool{}
	for _, l := range h.Leaves {
		known[l.ID] = true
	}
	for _, s := range h.Sessions {
		if s.Held || known[s.ID] || path.Base(s.Cgroup) != cgroup.Prefix+s.ID {
			continue
		}
		h.addLeaf(s.Cgroup, s.ID, false)
	}
}

// addLeaf reads a leaf of the user, if there is one. A leaf that cannot be read counts as the user's, and as one
// without members: what ends it reads it once more (openLeaf). old says that it goes if it is empty.
func (h *machine) addLeaf(dir, id string, old bool) {
	l := cgroupLeaf{Dir: dir, ID: id, UID: h.UID, Old: old}
	leaf, err := openLeaf(dir, h.UID)
	if err == nil {
		// Of the cgroups below it, some may be of a kind that has no list.
		l.PIDs, err = leaf.Procs()
		l.Foreign = leaf.HasUnseen()
		leaf.Close()
		if !proc.Starved(err) {
			err = nil
		}
	}
	if cgroup.IsGone(err) {
		return
	}
	if err != nil && len(h.Unknown) < proc.MaxNamed {
		h.Unknown = append(h.Unknown, err.Error())
	}
	h.Leaves = append(h.Leaves, l)
}

// openLeaf opens the leaf of a user. The error is cgroup.ErrNone for that of another one.
func openLeaf(dir string, uid int) (*cgroup.Leaf, error) {
	leaf, err := cgroup.Open(dir)
	if err != nil {
		return nil, err
	}
	owner, err := leaf.Owner()
	if err == nil && owner != uid {
		err = cgroup.ErrNone
	}
	if err != nil {
		leaf.Close()
	}
	return leaf, err
}

const (
	// leafSettles is how old a leaf must be: a supervisor that starts makes its leaf before its server.
	leafSettles = time.Second
	// leafAbandoned is how old an empty one must be that no record names.
	leafAbandoned = time.Minute
)
