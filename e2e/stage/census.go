package stage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Proc is a process as a person would name it.
type Proc struct {
	PID, PPID int
	State     string // one letter, see proc_pid_stat(5)
	Comm      string
	Args      string // its words, with spaces between
	Start     string // when it began: a pid and this are one process and no other
	line      string
}

func (p Proc) String() string {
	return fmt.Sprintf("pid %d, parent %d, %s: %s", p.PID, p.PPID, p.State, p.Args)
}

// Words are the command line.
func (p Proc) Words() []string { return strings.Split(strings.TrimRight(p.line, "\x00"), "\x00") }

// Says tells whether its command line has all of these in it. A NUL ends each of its words, and "^" stands for its beginning.
func (p Proc) Says(parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains("^"+p.line, part) })
}

// Lives tells whether that very process is there, and not dead.
func (p Proc) Lives() bool {
	now := Describe(p.PID)
	return !now.Dead() && now.Start == p.Start
}

// Dead tells whether it is gone, or will be as soon as somebody has waited for it.
func (p Proc) Dead() bool { return p.State == "" || p.State == "Z" || p.State == "X" }

// Environ is its environment, as it was when it began.
func (p Proc) Environ() []string {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	return strings.Split(string(env), "\x00")
}

// Runs tells whether it executes that very file, whatever its command line says.
func (p Proc) Runs(file string) bool {
	var one, other unix.Stat_t
	return unix.Stat(file, &one) == nil && unix.Stat(fmt.Sprintf("/proc/%d/exe", p.PID), &other) == nil &&
		one.Ino == other.Ino && one.Dev == other.Dev
}

// Signal signals that very process, or none.
func (p Proc) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return fmt.Errorf("open pid %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if !p.Lives() {
		return fmt.Errorf("signal pid %d: it is gone", p.PID)
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return fmt.Errorf("signal pid %d: %w", p.PID, err)
	}
	return nil
}

// PIDs lists all processes in sight. A pattern for filepath.Glob would read the directory of each.
func PIDs() (all []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// Living lists all processes in sight that live.
func Living() (all []Proc) {
	for _, pid := range PIDs() {
		if p := Describe(pid); !p.Dead() {
			all = append(all, p)
		}
	}
	return all
}

// Saying lists the living processes that say all of these, see Says.
func Saying(parts ...string) (found []Proc) {
	for _, pid := range PIDs() {
		// The command line of a dead process is empty.
		if (Proc{line: lineOf(pid)}).Says(parts...) {
			if p := Describe(pid); !p.Dead() {
				found = append(found, p)
			}
		}
	}
	return found
}

// Marked lists the living processes that have a variable, given with its value, in their environment.
func Marked(variable string) (found []Proc) {
	for _, pid := range PIDs() {
		if slices.Contains(Proc{PID: pid}.Environ(), variable) {
			if p := Describe(pid); !p.Dead() {
				found = append(found, p)
			}
		}
	}
	return found
}

// Below lists the living processes that descend from these.
func Below(pids ...int) (found []Proc) {
	all, family := Living(), map[int]bool{}
	for _, pid := range pids {
		family[pid] = true
	}
	for more := true; more; {
		more = false
		for _, p := range all {
			if family[p.PPID] && !family[p.PID] {
				family[p.PID], more = true, true
				found = append(found, p)
			}
		}
	}
	return found
}

// Holders lists the processes, but for this one, that have the file open. A process with hundreds of them is one.
func Holders(path string) []Proc {
	self := Describe(os.Getpid())
	var found []Proc
	for _, pid := range PIDs() {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		if pid == self.PID || !hasOpen(dir, path) {
			continue
		}
		// What another test has forked has all that we have open, until it executes something: maybe since we looked. At that
		// moment it has no arguments.
		p := Describe(pid)
		forked := p.Args == self.Args || p.Args == "" && p.PPID == self.PID
		if !forked && hasOpen(dir, path) {
			found = append(found, p)
		}
	}
	return found
}

func hasOpen(dir, path string) bool {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if target, _ := os.Readlink(filepath.Join(dir, e.Name())); target == path {
			return true
		}
	}
	return false
}

func lineOf(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(line)
}

// Describe reads a process. One that is gone has no state.
func Describe(pid int) Proc {
	p := Glance(pid)
	p.line = lineOf(pid)
	p.Args = strings.Join(p.Words(), " ")
	return p
}

// Glance is Describe without the command line, for a process whose memory may keep its readers waiting.
func Glance(pid int) Proc {
	p := Proc{PID: pid}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name may hold anything; the fields after its closing bracket begin with the third.
	head, tail := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if fields := strings.Fields(string(b[tail+1:])); head > 0 && len(fields) > 19 {
		p.Comm, p.State, p.Start = string(b[head+1:tail]), fields[0], fields[19]
		p.PPID, _ = strconv.Atoi(fields[1])
	}
	return p
}

var leafName = regexp.MustCompile(`/mcp-tether-([0-9a-f]{16})\b`)

// LeafID is the session in whose leaf the process is, or "".
func (p Proc) LeafID() string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID))
	if found := leafName.FindSubmatch(b); found != nil {
		return string(found[1])
	}
	return ""
}

// CgroupLeaf is the session's directory below our own cgroup, or "".
func CgroupLeaf(id string) string {
	own, err := OwnCgroup()
	if err != nil {
		return ""
	}
	leaf := filepath.Join(own, "mcp-tether-"+id)
	if _, err := os.Stat(leaf); err != nil {
		return ""
	}
	return leaf
}
