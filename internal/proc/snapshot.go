package proc

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The command line and environment are read from the memory of a process, and may keep the reader waiting for ever. The
// process may hold the lock of its memory while it waits for a file system, for example. Such a read ends only with the
// reading process. process_vm_readv(2) would be faster, but does not end even then. So another reader takes the place
// of one that waits, and what the first one was to read stays unknown.
const (
	// lateAfter is how long a reader may wait before another one takes its place. stuckAfter is how long a process may
	// keep a reader waiting in all.
	lateAfter  = 100 * time.Millisecond
	stuckAfter = 3 * time.Second
	// maxReaders bounds the readers, each of which is a thread while it waits.
	maxReaders = 64
)

const (
	// starvedLooks is how often processes are looked at once more that could not be looked at for want of a descriptor or
	// memory, and starvedPause how long the others then have to give some back.
	starvedLooks = 20
	starvedPause = 10 * time.Millisecond
)

// Snapshot reads the process table: stat and owner of every process in sight, kernel threads left out, and what else is
// wanted. Several readers share the work. Entries that vanish or may not be read are missing: unknown. It returns soon,
// whatever the processes do. If there is no descriptor or memory to look at a process that may be there, there is an error
// and no table: what is missing from a table would count as dead.
func Snapshot(readers int, want *Wanted) ([]Process, error) {
	list, err := pids("/proc")
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	return snapshotOf(list, readers, want)
}

// snapshotOf is a Snapshot of these processes.
func snapshotOf(list []int, readers int, want *Wanted) ([]Process, error) {
	s := &snapshot{want: want, list: list, out: make([]Process, 0, len(list)), ended: make(chan struct{}, maxReaders+2*(starvedLooks+1))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read(max(readers, 1))
	for n := 0; n < starvedLooks && len(s.starved) > 0; n++ {
		s.mu.Unlock()
		time.Sleep(starvedPause)
		s.mu.Lock()
		s.list, s.next, s.starved = s.starved, 0, nil
		s.read(1) // which makes do with one descriptor
	}
	s.closed = true
	s.addWaitedFor()
	if len(s.starved) > 0 {
		return nil, fmt.Errorf("read the process table: no descriptor or memory to look at %d processes", len(s.starved))
	}
	return s.out, nil
}

// snapshot is the work that the readers share.
type snapshot struct {
	want *Wanted

	ended chan struct{} // a reader has ended

	mu   sync.Mutex
	list []int
	next int // in list
	out  []Process
	// starved are those that could not be looked at for want of a descriptor or memory.
	starved []int
	readers []*tableReader
	// hurry says that no memory is read any more: what it would show is unknown.
	hurry  bool
	closed bool
}

// read has so many more readers read the list, and waits for all that do not wait themselves.
func (s *snapshot) read(readers int) {
	for range readers {
		s.start()
	}
	tick := time.NewTicker(lateAfter)
	defer tick.Stop()
	for s.working() {
		s.mu.Unlock()
		select {
		case <-s.ended:
		case <-tick.C:
		}
		s.mu.Lock()
	}
	// Of those that no reader reached, the memory is not read.
	s.hurry = true
	s.mu.Unlock()
	for r := new(tableReader); s.step(r); {
	}
	s.mu.Lock()
	s.hurry = false
}

// tableReader is one of the readers.
type tableReader struct {
	Reader
	// now is the process whose memory it has been reading since that time. late says that another reader has taken its
	// place.
	now   *Process
	since time.Time
	late  bool
	ended bool
}

func (s *snapshot) start() {
	r := &tableReader{}
	s.readers = append(s.readers, r)
	go func() {
		for s.step(r) {
		}
	}()
}

// working reports whether there is anything to wait for. It starts another reader in the place of each that has waited
// for lateAfter.
func (s *snapshot) working() bool {
	busy, late := false, 0
	for _, r := range s.readers {
		waits := time.Duration(0)
		if r.now != nil {
			waits = time.Since(r.since)
		}
		if !r.late && waits >= lateAfter {
			r.late = true
			late++
		}
		busy = busy || !r.ended && waits < stuckAfter
	}
	for ; late > 0 && s.next < len(s.list) && len(s.readers) < maxReaders; late-- {
		s.start()
		busy = true
	}
	return busy
}

// step reads one process, and reports whether there may be more.
func (s *snapshot) step(r *tableReader) bool {
	s.mu.Lock()
	if s.next >= len(s.list) || s.closed {
		r.ended = true
		s.ended <- struct{}{}
		s.mu.Unlock()
		return false
	}
	pid, hurry := s.list[s.next], s.hurry
	s.next++
	s.mu.Unlock()
	p, ok, err := r.entry(pid)
	if !ok && err == nil {
		return true
	}
	var words, values []string
	starved := err != nil
	if args, env := s.wants(&p); ok && (args || env) {
		s.mu.Lock()
		p.Stuck = hurry
		r.now, r.since, r.late = &p, time.Now(), false
		s.mu.Unlock()
		if args && !hurry {
			words = r.Args(pid)
		}
		if env && !hurry {
			values, _ = r.Env(pid, s.want.Names...)
		}
		starved = r.Unread()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.now = nil
	p.Args, p.Env = words, values
	switch {
	case s.closed:
	case starved:
		s.starved = append(s.starved, pid)
	default:
		s.out = append(s.out, p)
	}
	return true
}

func (s *snapshot) wants(p *Process) (args, env bool) {
	if p.Dead() {
		return false, false
	}
	return s.want.Args(p.UID), s.want.Env(p.UID)
}

// addWaitedFor adds the processes for which a reader still waits.
func (s *snapshot) addWaitedFor() {
	for _, r := range s.readers {
		if r.now != nil {
			r.now.Stuck = true
			s.out = append(s.out, *r.now)
		}
	}
}

// kthreadd is the parent of all kernel threads.
const kthreadd = 2

// entry reads what the kernel tells about a process without reading its memory. The error says that there is no descriptor
// or memory for that (Starved).
func (r *tableReader) entry(pid int) (p Process, ok bool, starved error) {
	s, err := r.Stat(pid)
	if err == nil && (s.PPID == kthreadd || s.PID == kthreadd && s.PPID == 0) {
		return Process{}, false, nil
	}
	uid := -1
	if err == nil {
		// The files of a process that is not dumpable belong to root, its directory to the effective user (proc(5)).
		uid, err = UID(pid)
	}
	if Starved(err) {
		return Process{}, false, err
	}
	return Process{Stat: s, UID: uid}, err == nil, nil
}

// Env reads the named variables of the environment that a process was started with; ok is false when it cannot be read.
// A variable that is not set is "".
func (r *Reader) Env(pid int, names ...string) (values []string, ok bool) {
	values = make([]string, len(names))
	if r.eachEnv(pid, func(entry []byte) { pick(entry, names, values) }) != nil {
		return nil, false
	}
	return values, true
}

// pick notes the value of an assignment to one of the names.
func pick(entry []byte, names, values []string) {
	for i, n := range names {
		if len(entry) > len(n) && entry[len(n)] == '=' && string(entry[:len(n)]) == n {
			values[i] = string(entry[len(n)+1:])
		}
	}
}

// PIDNamespace reads the pid namespace of a process. It may fail for a process of another user.
func PIDNamespace(pid int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path(pid, "ns/pid"), &st); err != nil {
		return 0, fmt.Errorf("read the pid namespace of %d: %w", pid, vanished(err))
	}
	return st.Ino, nil
}
