package reap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// table is a machine in one line a process: "pid ppid start comm args...".
func table(t *testing.T, rows ...string) *machine {
	t.Helper()
	h := &machine{Host: here, Self: 3, Since: 1000}
	for _, row := range append([]string{"1 0 1 systemd init", "3 1 990 mcp-tether mcp-tether reap"}, rows...) {
		var p process
		f := strings.Fields(row)
		if _, err := fmt.Sscan(strings.Join(f[:4], " "), &p.PID, &p.PPID, &p.Start, &p.Comm); err != nil {
			t.Fatal(row, err)
		}
		p.State, p.Threads, p.Stat.Session, p.Args = 'S', 1, p.PID, f[4:]
		h.Procs = append(h.Procs, p)
	}
	h.Lives = func(id proc.ID) proc.Life {
		for _, p := range h.Procs {
			if p.ID == id {
				return proc.Alive
			}
		}
		return proc.Dead
	}
	h.Stdin = func(int) evidence.Stdin { return evidence.Stdin{Far: evidence.Severed, Why: "severed"} }
	h.Inside = func(int) bool { return true }
	h.Reached = func([]int, []int) string { return "" }
	h.User = func(int, []int) int { return 0 }
	h.Stdout = func(int) (bool, []int) { return false, nil }
	h.Holder = func(evidence.Stdin) int { return 0 }
	return h
}

// A leaf without a record proves that its members are the session's, unless one of them is in another pid namespace. An empty one goes
// once it is old, and nothing is ended for it.
func TestFindLeafWithoutRecord(t *testing.T) {
	for name, c := range map[string]struct {
		leaf     cgroupLeaf
		isLiving bool
		goes     bool
		ended    int
	}{
		"old":                            {leaf: cgroupLeaf{Old: true}, goes: true},
		"young":                          {},
		"a process is in it":             {leaf: cgroupLeaf{Old: true, PIDs: []int{10}}, ended: 1},
		"one of another is in it":        {leaf: cgroupLeaf{Old: true, Foreign: true}},
		"one of another and one of ours": {leaf: cgroupLeaf{Old: true, Foreign: true, PIDs: []int{10}}},
		"with a living record":           {leaf: cgroupLeaf{Old: true}, isLiving: true},
	} {
		h := table(t, "10 1 5 node s")
		c.leaf.Dir, c.leaf.ID = "/c/mcp-tether-"+deadID, deadID
		h.Leaves = []cgroupLeaf{c.leaf}
		if c.isLiving {
			h.dead(0).Held = true
		}
		goes := slices.ContainsFunc(find(h, Rules{}), func(f Finding) bool { return f.Class == classCgroup && f.empty && len(f.Members) == 0 })
		if got := ended(h, Rules{}); len(got) != c.ended || goes != c.goes {
			t.Errorf("%s: ended %v, it goes: %t", name, got, goes)
		}
	}
}

// A record of another pid namespace, of which nothing holds the lease and nothing is in a cgroup, goes. Nothing is ended for it,
// whatever process has its numbers.
func TestFindOtherNamespace(t *testing.T) {
	const theirs = 4026532999
	for name, c := range map[string]struct {
		given func(h *machine, s *storedSession)
		want  bool
	}{
		"no cgroup":             {func(*machine, *storedSession) {}, true},
		"an empty cgroup":       {func(h *machine, _ *storedSession) { inLeaf(h) }, true},
		"a process in its leaf": {func(h *machine, _ *storedSession) { inLeaf(h, 10) }, false},
		"no boot is named":      {func(_ *machine, s *storedSession) { s.Host.Boot = "" }, false},
		"an engine was used":    {func(_ *machine, s *storedSession) { s.EngineUsed = true }, false},
		"the first namespace":   {func(h *machine, s *storedSession) { h.PIDNS, s.Host.PIDNS = theirs, here.PIDNS }, false},
	} {
		h := table(t, "10 1 5 node s")
		s := h.dead(10)
		s.Host.PIDNS = theirs
		c.given(h, s)
		if got := ended(h, Rules{}); len(got) > 0 {
			t.Errorf("%s: ended %v", name, got)
		}
		removed := slices.ContainsFunc(find(h, Rules{}), func(f Finding) bool { return f.Class == classRecord && f.empty && len(f.Members) == 0 })
		if removed != c.want {
			t.Errorf("%s: its record goes: %t", name, removed)
		}
	}
}

// proc finds an entry.
func (h *machine) proc(pid int) *process {
	return &h.Procs[slices.IndexFunc(h.Procs, func(p process) bool { return p.PID == pid })]
}

const deadID = "00112233445566ff"

// dead adds the record of a dead session.
func (h *machine) dead(server int) *storedSession {
	h.Sessions = append(h.Sessions, storedSession{Stored: inDirOf(0)})
	s := &h.Sessions[len(h.Sessions)-1]
	s.Record = session.Record{Version: 1, ID: deadID, Host: here, Processes: session.Processes{Server: proc.ID{PID: server}, Supervisor: proc.ID{PID: 99_999, Start: 1}}}
	if server > 0 {
		s.Server = h.proc(server).ID
	}
	return s
}

// ended lists the pids of the processes that a pass with --kill --unwrapped would end.
func ended(h *machine, r Rules) []int {
	out := []int{}
	for _, f := range asEachUser(find)(h, r) {
		if f.proven(true) {
			for _, id := range struck(h, f) {
				out = append(out, id.PID)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ruleCase is a machine, and what of it is ended by one class of findings.
type ruleCase struct {
	rows  []string // of the process table (table)
	given func(*machine)
	ended []int
}

// testClass plays machines, of which only findings of this class may end anything.
func testClass(t *testing.T, by class, cases map[string]ruleCase) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := table(t, c.rows...)
			if c.given != nil {
				c.given(h)
			}
			found := asEachUser(find)(h, modelRules())
			got := ended(h, modelRules())
			byAnother := slices.ContainsFunc(found, func(f Finding) bool { return f.proven(true) && f.Class != by })
			if slices.Equal(got, c.ended) && !byAnother {
				return
			}
			t.Errorf("ended %v, want %v by %s", got, c.ended, by)
			for _, f := range found {
				t.Logf("%s %v: %s", f.Class, f.Members, strings.Join(f.Evidence, "; "))
			}
		})
	}
}

// What a dead session's record proves: its server, and what is known to be that server's.
func TestFindRecord(t *testing.T) {
	testClass(t, classRecord, map[string]ruleCase{
		"the server of a record and what it started": {
			rows:  []string{"10 1 5 node s", "11 10 6 sh x", "12 1 7 daemon d"},
			given: func(h *machine) { h.dead(10) },
			ended: []int{10, 11},
		},
		"a member's own session": {
			rows:  []string{"10 1 5 chrome c", "11 1 6 chrome c"},
			given: func(h *machine) { h.dead(10); h.proc(11).Stat.Session = 10 },
			ended: []int{10, 11},
		},
		"an orphaned session, in the leaf": {
			rows:  innerSession("daemon d"),
			given: func(h *machine) { h.dead(0); inLeaf(h, 10, 11, 12) },
			ended: []int{10, 11, 12},
		},
		"the dead session's own server, if it is one of ours": {
			rows:  innerSession("daemon d"),
			given: func(h *machine) { h.dead(8).Keep = []string{"chrome"}; inLeaf(h, 8, 9, 10, 11, 12) },
			ended: []int{8, 9, 10, 12},
		},
		"patterns that nothing tells, beside a lock without a record": {
			rows:  []string{"10 1 5 node s"},
			given: func(h *machine) { h.dead(0).Supervisor = proc.ID{}; keep(h, 10) },
		},
		"what no pattern of the record matches": {
			rows:  []string{"10 1 5 chrome c", "11 10 6 renderer r", "12 1 7 worker w"},
			given: func(h *machine) { h.dead(0).Keep = []string{"chrome"}; keep(h, 10, 11, 12) },
			ended: []int{12},
		},
		"a root session that dropped privileges, in the recorded leaf": {
			rows: []string{"10 1 5 node s", "11 1 6 postgres p"},
			given: func(h *machine) {
				h.dead(10)
				h.proc(11).UID = 33
				inLeaf(h, 10, 11)
			},
			ended: []int{10, 11},
		},
	})
}

// What the mark in the environment proves, without a record.
func TestFindMark(t *testing.T) {
	testClass(t, classMark, map[string]ruleCase{
		"members that became another user are found with their own uid": {
			rows:  []string{"10 1 5 node s", "11 1 6 postgres p"},
			given: func(h *machine) { mark(h, 10); mark(h, 11); h.proc(11).UID = 33 },
			ended: []int{10, 11},
		},
		"what a session kept that has ended": {
			rows:  []string{"10 1 5 chrome c", "11 10 6 renderer r", "12 1 7 sh /opt/chrome", "13 1 8 sh sh"},
			given: func(h *machine) { keep(h, 10, 11, 12) },
		},
	})
}

// What membership in the leaf proves, without a record.
func TestFindCgroup(t *testing.T) {
	testClass(t, classCgroup, map[string]ruleCase{
		"patterns that nothing tells, in a leaf without a record": {
			rows:  []string{"10 1 5 node s", "11 10 6 chrome c"},
			given: func(h *machine) { keep(h, 10, 11); inLeaf(h, 10, 11) },
		},
		"members below an orphan": {
			rows:  []string{"10 1 5 node s", "11 10 6 chrome c"},
			given: func(h *machine) { inLeaf(h, 10, 11) },
			ended: []int{10, 11},
		},
		"a member below a supervisor that cannot be seen": {
			rows:  []string{"10 777 5 node s", "11 1 6 chrome c"},
			given: func(h *machine) { inLeaf(h, 10, 11) },
		},
	})
}

// A known server that was never wrapped, under no gateway: nobody can write to it any more.
func TestFindSevered(t *testing.T) {
	testClass(t, classSevered, map[string]ruleCase{
		"an orphaned server whose stdin is severed": {
			rows:  []string{"10 1 5 fs-server /opt/fs-server --root /srv", "11 10 6 chrome c"},
			ended: []int{10, 11},
		},
		"a server below a parent that cannot be seen": {
			rows: []string{"10 777 5 fs-server /opt/fs-server --root /srv"},
		},
		"the server of a job of cron whose answer its script waits for": {
			rows:  []string{"8 1 4 cron cron -f", "9 8 4 sh sh -c /opt/nightly.sh", "10 9 5 bash bash /opt/nightly.sh", "11 10 6 fs-server /opt/fs-server --root /srv"},
			given: func(h *machine) { h.Stdout = func(int) (bool, []int) { return false, []int{11, 10} } },
		},
		"a server in a pipeline that has had its only request": {
			rows: []string{"10 1 5 sh sh -c echo | mcp-server-x | jq .", "12 10 6 node node /n/node_modules/.bin/mcp-server-x", "13 10 6 jq jq ."},
			given: func(h *machine) {
				apart(h)
				h.Stdout = func(int) (bool, []int) { return false, []int{13} }
			},
		},
		"a server that has pipes to a known server of its own": {
			rows:  []string{"10 1 5 sh sh -c mcp-server-x", "11 10 6 node node /n/node_modules/.bin/mcp-server-x", "12 11 7 fs-server /opt/fs-server --root /srv"},
			given: func(h *machine) { holdStdin(h, 12) },
			ended: []int{10, 11, 12},
		},
		"a newborn": {
			rows: []string{"10 1 1000 fs-server /opt/fs-server --root /srv"},
		},
	})
}

// The same under a living gateway.
func TestFindDropped(t *testing.T) {
	testClass(t, classDropped, map[string]ruleCase{
		"a dropped server whose answer only it could read": {
			rows:  []string{"9 1 4 node gateway", "10 9 5 fs-server /opt/fs-server --root /srv"},
			given: func(h *machine) { h.Stdout = func(int) (bool, []int) { return false, []int{10} } },
			ended: []int{10},
		},
		"a wrapped server whose client has closed its input": {
			rows: []string{"8 1 3 mcp-tether mcp-tether run -- s", "9 8 4 mcp-tether mcp-tether run -- s", "10 9 5 fs-server /opt/fs-server --root /srv"},
		},
		"a start script whose child listens": {
			rows: []string{"9 1 4 node gateway", "10 9 5 fs-server /opt/fs-server --root /srv", "11 10 6 python python"},
			given: func(h *machine) {
				h.Reached = func(pids, _ []int) string {
					if slices.Contains(pids, 11) {
						return "it listens"
					}
					return ""
				}
			},
		},
		"a server in a pipeline, under a gateway that has dropped its launcher": {
			rows:  []string{"9 1 4 codex codex", "10 9 5 sh sh -c tail -F queue | mcp-server-x", "12 10 6 node node /n/node_modules/.bin/mcp-server-x"},
			given: func(h *machine) { apart(h) },
		},
	})
}

// innerSession is a table with the session of another wrapper, and an orphan.
func innerSession(orphan string) []string {
	return []string{"8 1 3 mcp-tether mcp-tether run -- s", "9 8 4 mcp-tether mcp-tether run -- s", "10 9 5 node s",
		"11 10 6 chrome c", "12 1 7 " + orphan}
}

// inLeaf puts processes into the dead session's leaf.
func inLeaf(h *machine, pids ...int) {
	h.Leaves = []cgroupLeaf{{Dir: "/c/mcp-tether-" + deadID, ID: deadID, PIDs: pids}}
}

// holdStdin has somebody hold the far end of one process's standard input.
func holdStdin(h *machine, held int) {
	h.Stdin = func(pid int) evidence.Stdin {
		if pid == held {
			return evidence.Stdin{Far: evidence.FarHeld, Why: "held", Peer: 7}
		}
		return evidence.Stdin{Far: evidence.Severed, Why: "severed"}
	}
}

// apart gives each process a standard input of its own.
func apart(h *machine) {
	h.Stdin = func(pid int) evidence.Stdin {
		return evidence.Stdin{Far: evidence.Severed, Why: "severed", Peer: uint64(pid)}
	}
}

// mark marks a process as of a session whose gateway is dead.
func mark(h *machine, pid int) {
	p := h.proc(pid)
	p.Mark, p.Gateway = deadID, proc.GlobalID{ID: proc.ID{PID: 99_998, Start: 1}, Host: here}.String()
}

// keep marks processes as of a session that keeps some.
func keep(h *machine, pids ...int) {
	for _, pid := range pids {
		mark(h, pid)
		h.proc(pid).Keeps = true
	}
}

// What a session may have kept is reported, and why.
func TestFindKeptByMark(t *testing.T) {
	h := table(t, "10 1 5 chrome c", "11 10 6 renderer r", "12 1 7 worker w")
	keep(h, 10, 11, 12)
	found := find(h, modelRules())
	if len(found) != 1 || found[0].Class != classSuspect || !slices.Equal(found[0].Members, []proc.ID{h.proc(10).ID, h.proc(11).ID, h.proc(12).ID}) ||
		found[0].Advice != adviceKeep || !strings.Contains(strings.Join(found[0].Evidence, ";"), "--keep") {
		t.Errorf("%+v", found)
	}
}

// The table is no snapshot: by pids that changed hands meanwhile, parents may go round in a circle.
func TestFindEndsOnCircle(t *testing.T) {
	h := table(t, "10 11 5 sh sh -c fs-server", "11 10 6 sh sh -c fs-server", "12 11 7 fs-server /opt/fs-server --root /srv", "13 14 8 bash bash", "14 13 9 bash bash",
		"15 14 10 fs-server /opt/fs-server --root /srv")
	mark(h, 15)
	find(h, modelRules()) // or the test never ends
}

// 492 servers of four kinds under one living gateway.
func TestFindSurplus(t *testing.T) {
	rows := []string{"50 1 5 codex codex app-server"}
	kinds := []string{"/opt/fs-server --root /srv", "uvx mcp-server-git", "npx -y @scope/server-x", "/opt/other --flag"}
	for i := range 492 {
		rows = append(rows, fmt.Sprintf("%d 50 %d server %s", 100+i, 10+i, kinds[i%4]))
	}
	r := modelRules()
	known := r.Match
	r.Match = func(p clients.Running) (string, bool) {
		if len(p.Args) > 0 && p.Args[0] == "/opt/other" {
			return "other", true
		}
		return known(p)
	}
	h := table(t, rows...)
	// All of them were let go of.
	if dropped := find(h, r); len(dropped) != 492 || dropped[0].Class != classDropped || dropped[0].proven(false) || !dropped[0].proven(true) {
		t.Errorf("%d dropped", len(dropped))
	}
	h.Stdin = func(int) evidence.Stdin { return evidence.Stdin{Far: evidence.FarHeld, Why: "held"} }
	found := find(h, r)
	if len(found) != 4 {
		t.Fatalf("%d findings", len(found))
	}
	for _, f := range found {
		if f.Class != classSurplus || f.Count != 123 || len(f.Members) != 123 || f.proven(true) || f.Advice == "" || f.Gateway.PID != 50 || f.Gateway.State != "alive" {
			t.Errorf("%+v", f)
		}
	}
}

// Sessions of one kind are a surplus under a gateway as far as each is known to have a server.
func TestFindSurplusOfSessions(t *testing.T) {
	for name, c := range map[string]struct {
		record session.Record
		want   int
	}{
		"awake":  {record: session.Record{State: session.StateRunning, Processes: session.Processes{Server: proc.ID{PID: 10, Start: 5}}}, want: 1},
		"asleep": {record: session.Record{State: session.StateAsleep}},
	} {
		h := table(t, "10 1 5 node s")
		c.record.Host = here
		for range 9 {
			h.Sessions = append(h.Sessions, storedSession{Stored: session.Stored{Record: c.record, Held: true}})
		}
		if found := find(h, modelRules()); len(found) != c.want || c.want > 0 && (found[0].Class != classSurplus || found[0].Count != 9) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// What is in the cgroup of a dead session is proven by that, whatever became of its gateway. One finding names it all.
func TestFindMarkedInLeaf(t *testing.T) {
	for name, c := range map[string]struct {
		more  func(h *machine)
		class class
	}{
		"the gateway is dead":       {func(h *machine) { h.Lives = func(proc.ID) proc.Life { return proc.Dead } }, classCgroup},
		"a member is looked after":  {func(h *machine) { h.proc(10).PPID = 9 }, classSuspect},
		"no member is in the table": {func(h *machine) { h.Leaves[0].PIDs = []int{777} }, classMark},
	} {
		h := table(t, "9 1 4 tmux tmux", "10 1 600 node s", "11 10 610 chrome c", "12 11 620 chrome c")
		inLeaf(h, 10, 11)
		mark(h, 10)
		mark(h, 12)
		c.more(h)
		found := find(h, Rules{})
		if len(found) == 0 || found[0].Class != c.class || found[0].Top.PID != 10 || len(found[0].Members) != 3 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// A process that has adopted an orphan is recognised by that, whatever its name. A parent that has adopted none looks
// after its children.
func TestFindMarkedUnderParents(t *testing.T) {
	rows := []string{"9 1 4 tmux tmux", "10 9 5 bash -bash"}
	for name, c := range map[string]struct {
		more func(h *machine)
		want []int
	}{
		"started by its parent":        {func(*machine) {}, []int{}},
		"in the session of a dead one": {func(h *machine) { h.proc(10).Stat.Session = 7 }, []int{10}},
		"of a living one":              {func(h *machine) { h.proc(10).Stat.Session = 1 }, []int{}},
	} {
		h := table(t, rows...)
		h.proc(9).Stat.Session, h.proc(10).Stat.Session, h.proc(1).Stat.Session = 9, 9, 1
		mark(h, 10)
		c.more(h)
		if got := ended(h, Rules{}); !slices.Equal(got, c.want) {
			t.Errorf("%s: ended %v, want %v", name, got, c.want)
		}
	}
}

// A server asks a terminal that was there before it for a window, with its own environment. The window is the user's, and
// no part of the session, although the session has a record. What a member has started is, whatever its environment. On a full disk a
// record is empty: then it is not known what was there before the session, and a window whose parent lives is left to the marks.
func TestFindMarkedOutsideOfRecord(t *testing.T) {
	record := func(h *machine) {
		h.dead(20).Supervisor = proc.ID{PID: 99_999, Start: 20}
		mark(h, 22)
	}
	lock := func(h *machine) {
		h.dead(0).Supervisor = proc.ID{}
		mark(h, 20)
	}
	server, all := []int{20, 21, 22}, []int{10, 11, 20, 21, 22}
	for name, c := range map[string]struct {
		given func(h *machine)
		more  func(p, window *process)
		want  []int
	}{
		"older than the session":            {given: record, want: server},
		"younger":                           {given: record, more: func(p, _ *process) { p.Start = 40 }, want: all},
		"a service":                         {given: record, more: func(p, window *process) { p.Comm, window.Service = "systemd", true }, want: server},
		"beside a lock":                     {given: lock, want: server},
		"beside a lock, if adopted":         {given: lock, more: func(p, _ *process) { p.Comm = "systemd" }, want: all},
		"beside a lock, if it is a service": {given: lock, more: func(p, window *process) { p.Comm, window.Service = "systemd", true }, want: server},
	} {
		h := table(t, "8 1 4 gnome-terminal- gnome-terminal-server", "10 8 50 bash bash", "11 10 51 vim vim", "20 1 30 node s", "21 20 31 chrome c", "22 21 32 chrome c")
		for _, pid := range []int{8, 10, 11} {
			h.proc(pid).Stat.Session = 8
		}
		mark(h, 10)
		mark(h, 11)
		c.given(h)
		if c.more != nil {
			c.more(h.proc(8), h.proc(10))
		}
		if got := ended(h, Rules{}); !slices.Equal(got, c.want) {
			t.Errorf("%s: ended %v, want %v", name, got, c.want)
		}
		for _, f := range find(h, Rules{}) {
			if spared := !slices.Contains(c.want, 10); f.Class == classRecord && spared && !f.group.Inherited {
				t.Errorf("%s: newborns are ended by their mark", name)
			}
		}
	}
}

// The same without a record, where the mark and the leaf prove what the record did. A process that is born meanwhile with
// the mark may be one that the terminal has started, and is ended by neither.
func TestFindMarkedOutsideOfMark(t *testing.T) {
	for name, c := range map[string]struct {
		more func(h *machine)
		want bool
	}{
		"a terminal's window":    {func(*machine) {}, true},
		"a newborn window":       {func(h *machine) { h.proc(10).Start = h.Since }, true},
		"a dead one":             {func(h *machine) { h.proc(10).State, h.proc(10).Threads = 'Z', 0 }, false},
		"of the session's child": {func(h *machine) { h.proc(10).PPID = 20 }, false},
	} {
		for _, leaf := range []bool{false, true} {
			h := table(t, "8 1 4 gnome-terminal- gnome-terminal-server", "10 8 50 bash bash", "20 1 30 node s", "21 20 31 chrome c")
			mark(h, 10)
			mark(h, 20)
			if leaf {
				inLeaf(h, 20, 21)
			}
			c.more(h)
			proven := 0
			for _, f := range find(h, Rules{}) {
				if f.Session != deadID || !f.proven(false) {
					continue
				}
				if proven++; f.group.Inherited != c.want {
					t.Errorf("%s, leaf %t: inherited %t: %+v", name, leaf, f.group.Inherited, f)
				}
			}
			if proven == 0 {
				t.Errorf("%s, leaf %t: not found", name, leaf)
			}
		}
	}
}

// A limit of one session leaves everything else alone.
func TestFindSession(t *testing.T) {
	h := table(t, "10 1 5 node s", "11 1 6 node s", "12 1 7 fs-server /opt/fs-server --root /srv")
	mark(h, 10)
	mark(h, 11)
	h.proc(11).Mark = "ffffffffffffffff"
	r := modelRules()
	r.Session = deadID
	if got := ended(h, r); !slices.Equal(got, []int{10}) {
		t.Errorf("ended %v", got)
	}
}

// Of a dead session whose record cannot be read, nothing is proven: not by its leaf, and not by its mark.
func TestFindUnreadRecord(t *testing.T) {
	h := table(t, "10 1 5 node s", "11 1 6 chrome c")
	s := h.dead(0)
	s.Record = session.Record{Version: 1, ID: deadID, Host: here}
	s.Unread = errors.New("damaged")
	inLeaf(h, 10)
	mark(h, 11)
	found := find(h, Rules{})
	if len(found) != 1 || found[0].Class != classSuspect || len(found[0].Members) != 2 || !strings.Contains(found[0].Advice, "--forget") {
		t.Errorf("%+v", found)
	}
}

// A supervisor may be unable to read the boot id. What it has left is of an unknown boot, and may live.
func TestFindWithoutBoot(t *testing.T) {
	for name, more := range map[string]func(*machine){
		"record": func(h *machine) { h.dead(10).Host = proc.Host{} },
		"mark": func(h *machine) {
			h.proc(10).Mark, h.proc(10).Gateway = deadID, proc.GlobalID{ID: proc.ID{PID: 99_998, Start: 1}}.String()
		},
	} {
		h := table(t, "10 1 5 node s")
		more(h)
		found := find(h, Rules{})
		if len(found) != 1 || found[0].Class != classSuspect || found[0].Advice == "" || found[0].Gateway.State != proc.Unknown.String() {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// Readers of the JSON iterate over the lists.
func TestFindListsAreNotNil(t *testing.T) {
	h := table(t, "10 1 5 node s")
	h.dead(0).Host.Boot = "another"
	h.Leaves = []cgroupLeaf{{Dir: "/c/mcp-tether-ffffffffffffffff", ID: "ffffffffffffffff", PIDs: []int{10}}}
	found := find(h, Rules{})
	if len(found) != 2 {
		t.Fatalf("%+v", found)
	}
	var b strings.Builder
	if err := (Report{Findings: found, Warnings: []string{}}).JSON(&b); err != nil || strings.Contains(b.String(), "null") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Only what is proven by our own marks is ended unasked.
func TestProven(t *testing.T) {
	for c, want := range map[class][2]bool{
		classRecord: {true, true}, classMark: {true, true}, classCgroup: {true, true}, classSevered: {false, true}, classSuspect: {}, classSurplus: {}, "": {}, "other": {},
	} {
		f := Finding{Class: c}
		if got := [2]bool{f.proven(false), f.proven(true)}; got != want {
			t.Errorf("%q: %v, want %v", c, got, want)
		}
	}
}

// A user's server below a launcher of root is the user's: the launcher can neither be read nor ended.
func TestServerBelowSudo(t *testing.T) {
	h := table(t, "10 1 5 sudo sudo -u me npx known-server", "11 10 6 npx npx known-server", "12 11 7 node node known-server")
	h.UID = 1000
	for _, pid := range []int{3, 11, 12} {
		h.proc(pid).UID = h.UID
	}
	h.Stdin = func(pid int) evidence.Stdin {
		if h.proc(pid).UID != h.UID {
			return evidence.Stdin{Why: "cannot be read"}
		}
		return evidence.Stdin{Far: evidence.Severed, Why: "severed"}
	}
	known := func(p clients.Running) (string, bool) {
		return "known", p.UID == h.UID && slices.Contains(p.Args, "known-server")
	}
	found := find(h, Rules{Match: known, SurplusOver: 9})
	want := []proc.ID{h.proc(11).ID, h.proc(12).ID}
	if len(found) != 1 || found[0].Class != classSevered || found[0].UID != h.UID || !slices.Equal(found[0].Members, want) {
		t.Errorf("%+v", found)
	}
}

// A dropped server is examined once more as it was at first: all servers of its tree are.
func TestFindStillDropped(t *testing.T) {
	rows := []string{"9 1 4 codex codex", "10 9 5 sh sh -c mcp-server-x", "11 10 6 node node /n/node_modules/.bin/mcp-server-x"}
	for pid, want := range map[int]bool{0: true, 10: false, 11: false} {
		h := table(t, rows...)
		found := find(h, modelRules())
		if len(found) != 1 || found[0].Class != classDropped {
			t.Fatalf("%+v", found)
		}
		holdStdin(h, pid)
		if found[0].still() != want {
			t.Errorf("pid %d is held: want still dropped: %t", pid, want)
		}
	}
}
