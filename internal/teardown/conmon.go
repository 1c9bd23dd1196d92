package teardown

import (
	"slices"
	"time"

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
func cleaners(members []proc.Stat) (cleans map[int]bool, t proc.Table) {
	cleans, t = map[int]bool{}, proc.NewTable(members)
	for _, m := range members {
		if m.Comm != "conmon" {
			continue
		}
		cleans[m.PID] = true
		for _, pid := range t.Children(m.PID) {
			if c, _ := t.Get(pid); c.Comm != "podman" {
				continue
			}
			for _, b := range t.Below([]int{pid}, nil) {
				cleans[b.PID] = true
			}
		}
	}
	return cleans, t
}

// unasked are the members that get no SIGTERM: conmon would pass it on to its container, which is asked itself. One that has no member
// below it from the start is asked: its container is another user's. Later it cleans up.
func unasked(members []proc.Stat, first bool) map[int]bool {
	cleans, t := cleaners(members)
	for pid := range cleans {
		if m, _ := t.Get(pid); first && m.Comm == "conmon" && len(t.Children(pid)) == 0 {
			delete(cleans, pid)
		}
	}
	return cleans
}

// others are the members that do not clean up, while there are such that do and their time is not up. What forks away meanwhile is
// killed after that.
func (k *Killer) others(members []proc.Stat) (others []proc.Stat, waits bool) {
	cleans, _ := cleaners(members)
	if len(cleans) == 0 {
		return nil, false
	}
	if k.cleanUntil.IsZero() {
		k.cleanUntil = time.Now().Add(min(k.Cleanup, MaxCleanup))
	}
	if !time.Now().Before(k.cleanUntil) {
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(members), func(m proc.Stat) bool { return cleans[m.PID] }), true
}
