package proc

// Table is one look at processes, by pid and by parent.
//
// No child is older than its parent: a younger process has got the parent's pid while the table was read.
type Table struct {
	byPID    map[int]Stat
	children map[int][]int
}

// NewTable makes a table of what was read.
func NewTable(all []Stat) Table {
	t := Table{make(map[int]Stat, len(all)), make(map[int][]int, len(all))}
	for _, s := range all {
		t.byPID[s.PID] = s
	}
	for _, s := range all {
		if _, known := t.byPID[s.PPID]; known {
			if _, ok := t.Parent(s); !ok {
				continue
			}
		}
		t.children[s.PPID] = append(t.children[s.PPID], s.PID)
	}
	return t
}

// Get gives the process that has a pid.
func (t Table) Get(pid int) (Stat, bool) {
	s, ok := t.byPID[pid]
	return s, ok
}

// Has reports whether exactly that process is in the table.
func (t Table) Has(id ID) bool { return t.byPID[id.PID].ID == id && !id.Zero() }

// Parent gives the parent of a process, as far as that is in the table.
func (t Table) Parent(s Stat) (Stat, bool) {
	up, ok := t.byPID[s.PPID]
	return up, ok && up.Start <= s.Start
}

// Children lists the children of a process, which need not be in the table itself.
func (t Table) Children(pid int) []int { return t.children[pid] }

// Put adds a process that was read later. What the table knows by its pid, and below it, was another one's.
func (t Table) Put(s Stat) {
	t.byPID[s.PID] = s
	delete(t.children, s.PID)
	if _, ok := t.Parent(s); ok {
		t.children[s.PPID] = append(t.children[s.PPID], s.PID)
	}
}

// Below lists the processes of the given pids and all below them, each once, without those in except and what is below these alone.
func (t Table) Below(pids []int, except map[int]bool) (out []Stat) {
	seen := map[int]bool{}
	for queue := append([]int(nil), pids...); len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		s, ok := t.byPID[pid]
		if seen[pid] || except[pid] || !ok {
			continue
		}
		seen[pid] = true
		out = append(out, s)
		for _, c := range t.children[pid] {
			if t.byPID[c].PPID == pid { // or Put has replaced it
				queue = append(queue, c)
			}
		}
	}
	return out
}
