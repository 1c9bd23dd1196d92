package front

import (
	"errors"
	"os"
	"strconv"
	"time"

	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// A server is ended only if nothing shows that it has work in it which would be lost. What it had when it wrote for the first
// time is its own way to start, and the next one will have it again. What has come since may be work: a process, a lock, a file
// that is open for writing, a socket that others can reach or that reaches others. So may be the use of a processor while
// nobody asks for anything. What cannot be read may be work as well.

// seen is what the looks at the tree of one backend have shown.
type seen struct {
	// firstWrite is when the server has written for the first time; zero before. Then processes and holds are those that count as its
	// own way to start.
	firstWrite time.Time
	processes  map[proc.ID]bool
	holds      evidence.Holdings
	// used is when the last message before this idle time passed, and at when the processor time was read that the next look
	// is compared with, in clock ticks.
	used, at time.Time
	ticks    uint64
	// pause is that between two looks at a server that is kept awake.
	pause time.Duration
}

// tree are the server's processes at one moment.
type tree struct {
	// members are the living ones that do not run our own program, which has no work of the server's.
	members []proc.Stat
	// ticks is the processor time of all that there have been.
	ticks uint64
	// root is the process that they are below.
	root int
	// input is the standard input of our own processes, and so the server's too.
	input string
}

// errUnread says that processes of the tree cannot be read.
var errUnread = errors.New("a process of it cannot be looked at")

// root is the process below which the backend is: we, or the host of a shared server. It is 0 for a host that has ended.
func (f *front) root() int {
	if !f.back.attached {
		return os.Getpid()
	}
	host := f.o.Finder.Host()
	if f.reader.Life(host) != proc.Alive {
		return 0
	}
	return host.PID
}

func (f *front) tree() (t tree, err error) {
	t.root = f.root()
	own, _ := proc.Readlink(proc.SelfExe)
	if t.root == 0 || own == "" {
		return t, errUnread
	}
	below, err := f.reader.Descendants(t.root)
	if f.reader.Unseen {
		err = errUnread
	}
	for i := range below {
		p := &below[i]
		_, ticks, waited := f.reader.Usage(p.PID)
		t.ticks += waited
		if program, _ := proc.Readlink(proc.Path(p.PID, "exe")); program == own {
			t.input, _ = proc.Readlink(proc.Path(p.PID, "fd/0"))
			continue
		}
		t.ticks += ticks
		if !p.Dead() {
			t.members = append(t.members, *p)
		}
	}
	return t, err
}

// onFirstWrite notes what there is when a server has written for the first time. If it works already (2026-07-28 needs no handshake),
// nothing tells what was there before, but for the processes that read its standard input: launchers, and itself.
func (f *front) onFirstWrite(works bool) {
	s := &f.back.seen
	*s = seen{firstWrite: time.Now(), processes: map[proc.ID]bool{}}
	if f.o.Hibernate <= 0 || f.o.Anyway {
		return
	}
	t, _ := f.tree()
	for i := range t.members {
		id := t.members[i].ID
		input, _ := proc.Readlink(proc.Path(id.PID, "fd/0"))
		if !works || input == t.input {
			s.processes[id] = true
		}
	}
	if !works {
		s.holds, _ = evidence.HoldingsOf(t.members) // What it does not list counts as new.
	}
}

// beginIdle notes the processor time that the server has used until now, when an idle time begins.
func (f *front) beginIdle(used, now time.Time) {
	s := &f.back.seen
	s.used, s.at, s.pause = used, now, 0
	if !f.o.Anyway {
		t, _ := f.tree()
		s.ticks = t.ticks
	}
	f.tellAwake("")
}

// A runtime that waits for input still collects garbage and looks at clocks, which takes a few milliseconds now and then:
// idleTicks, and one part in idleShare of the time.
const (
	idleTicks = 2
	idleShare = 1000
)

// work says what shows that an idle server has work in it, "" for nothing.
func (f *front) work(now time.Time) (why string) {
	s := &f.back.seen
	t, err := f.tree()
	if err != nil {
		return err.Error()
	}
	used, allowed := t.ticks-min(s.ticks, t.ticks), idleTicks+uint64(now.Sub(s.at)/(idleShare*proc.Tick))
	s.ticks, s.at = t.ticks, now
	for i := range t.members {
		if p := &t.members[i]; !s.processes[p.ID] {
			return p.Comm + " (" + strconv.Itoa(p.PID) + ") was started"
		}
	}
	if used > allowed {
		return "it has used a processor for " + (time.Duration(used) * proc.Tick).String()
	}
	holds, err := evidence.HoldingsOf(t.members)
	if err != nil {
		return err.Error()
	}
	first := "~" // after all keys: the same one is named each time
	for key := range holds {
		if key < first && s.holds[key] == "" {
			first = key
		}
	}
	if why = holds[first]; why == "" {
		why = f.outside(&t)
	}
	return why
}

// outside says whether the session has made a container since the server was met. What becomes of one is not asked. One that was there
// before may be the server itself.
func (f *front) outside(t *tree) (why string) {
	dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return err.Error()
	}
	defer dir.Close()
	switch r := f.recordBehind(dir, t); {
	case r == nil:
		return "its session has no record that can be found"
	case r.ContainerAt.After(f.back.seen.firstWrite):
		return "a container was made"
	}
	return ""
}

// recordBehind finds the record of the session behind the front by the mark of its processes.
func (f *front) recordBehind(dir *session.Directory, t *tree) *session.Record {
	for i := range t.members {
		mark, err := f.reader.Env(t.members[i], session.EnvID)
		if err != nil || !session.ValidID(mark[0]) {
			continue
		}
		r, err := dir.Read(mark[0])
		if err == nil && (r.Behind == f.record.ID || r.Gateway.PID == t.root) {
			return &r
		}
	}
	return nil
}
