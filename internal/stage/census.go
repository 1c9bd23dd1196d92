package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"mcp-tether/internal/testkit"
)

// Proc is a process as a person would name it.
type Proc struct {
	PID, PPID int
	State     string // one letter, see proc_pid_stat(5)
	Args      string
}

func (p Proc) String() string {
	return fmt.Sprintf("pid %d, parent %d, %s: %s", p.PID, p.PPID, p.State, p.Args)
}

// Holders lists the processes, but for this one, that have the file open. A process with hundreds of them is one.
func Holders(path string) []Proc {
	self := Describe(os.Getpid())
	fds, _ := filepath.Glob("/proc/[0-9]*/fd")
	var found []Proc
	for _, dir := range fds {
		pid, _ := strconv.Atoi(strings.Split(dir, "/")[2])
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

// Describe reads a process. One that is gone has no state.
func Describe(pid int) Proc {
	p := Proc{PID: pid}
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	p.Args = strings.ReplaceAll(strings.TrimRight(string(args), "\x00"), "\x00", " ")
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndexByte(string(stat), ')'); i > 0 {
		_, _ = fmt.Sscan(string(stat[i+1:]), &p.State, &p.PPID)
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
	own, err := testkit.OwnCgroup()
	if err != nil {
		return ""
	}
	leaf := filepath.Join(own, "mcp-tether-"+id)
	if _, err := os.Stat(leaf); err != nil {
		return ""
	}
	return leaf
}
