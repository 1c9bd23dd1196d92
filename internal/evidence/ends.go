package evidence

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// How /proc/PID/fd names files that have an inode only.
const (
	pipePrefix   = "pipe:["
	socketPrefix = "socket:["
)

// Ends says which processes have a pipe or a socket open, by its name in /proc/PID/fd: a pipe for reading or for writing, a socket for
// both.
type Ends struct{ readers, writers map[string][]int }

// EndsOf reads the descriptor tables of processes, each once. Those that cannot be read are skipped: of a pipe the kernel tells whether
// there are others (mayBeRead).
func EndsOf(pids []int) Ends {
	of := Ends{map[string][]int{}, map[string][]int{}}
	add := func(to map[string][]int, end string, pid int) {
		if !slices.Contains(to[end], pid) {
			to[end] = append(to[end], pid)
		}
	}
	for _, pid := range pids {
		_ = proc.EachDescriptor(pid, func(link, to string, err error) bool {
			isSocket := strings.HasPrefix(to, socketPrefix)
			if err != nil || !isSocket && !strings.HasPrefix(to, pipePrefix) {
				return true
			}
			if isSocket || isOpen(link, forReading) {
				add(of.readers, to, pid)
			}
			if isSocket || isOpen(link, forWriting) {
				add(of.writers, to, pid)
			}
			return true
		})
	}
	return of
}

// How a file may be open. The mode of its link in the descriptor table shows it (proc_pid_fd(5)).
const (
	forReading = 0o400
	forWriting = 0o200
)

func isOpen(link string, how uint32) bool {
	var st unix.Stat_t
	return unix.Lstat(link, &st) == nil && st.Mode&how != 0
}
