package teardown

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Podman without a socket is no engine: conmon, which becomes a child of Root, holds a container. Its own child is the
// container's first process. When that has ended, conmon runs `podman container cleanup`, which unmounts, and removes the
// container with --rm. A conmon that is killed with its container leaves it as "Up", and its name taken.
//
// The names are a program's own word. They buy it no more than MaxCleanup.

// MaxCleanup bounds how long conmon may clean up before it is killed too.
const MaxCleanup = 2 * time.Second

// cleaners are the members that clean up after a container: conmon, its podman, and what that has started.
func cleaners(members []proc.Stat) map[int]bool {
	name, parent := map[int]string{}, map[int]int{}
	for _, m := range members {
		name[m.PID], parent[m.PID] = m.Comm, m.PPID
	}
	cleans := map[int]bool{}
	for _, m := range members {
		for pid, n := m.PID, 0; pid > 0 && n < maxClimb; pid, n = parent[pid], n+1 {
			if name[pid] == "conmon" && pid == m.PID || name[pid] == "podman" && name[parent[pid]] == "conmon" {
				cleans[m.PID] = true
				break
			}
		}
	}
	return cleans
}

// killOthers kills all members but those that clean up, while there are such and their time is not up. What forks away
// meanwhile is killed after that.
func (s *Scope) killOthers(members []proc.Stat) (sent []Sent, waits bool) {
	cleans := cleaners(members)
	if len(cleans) == 0 {
		return nil, false
	}
	if s.cleanUntil.IsZero() {
		s.cleanUntil = time.Now().Add(min(s.Cleanup, MaxCleanup))
	}
	if !time.Now().Before(s.cleanUntil) {
		return nil, false
	}
	var others []proc.Stat
	for _, m := range members {
		if !cleans[m.PID] {
			others = append(others, m)
		}
	}
	return signalAll(&s.reader, others, unix.SIGKILL), true
}
