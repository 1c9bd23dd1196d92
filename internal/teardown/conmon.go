package teardown

import (
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Podman without a socket is no engine: conmon, which becomes a child of Root, holds a container. Its own child is the
// container's first process. When that has ended, conmon runs `podman container cleanup`, which unmounts, and removes the
// container with --rm. A conmon that is killed with its container leaves it as "Up", and its name taken.
//
// The names are a program's own word. They buy it no more than maxCleanup.

// maxCleanup bounds how long conmon may clean up before it is killed too.
const maxCleanup = 2 * time.Second

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

// olderReason is why a container is kept that is not the session's.
const olderReason = "its container is older than the session"

// HoldsOlder reports whether a process is the conmon of a container that was made before a session began. Boxes of toolbox and
// distrobox are made once and go on by design: a session that starts one has not made it. What is executed in it later has a
// conmon of its own, which is the session's.
func HoldsOlder(comm string, args []string, began time.Time) bool {
	at := slices.Index(args, "-b") // the bundle: STORAGE/ID/userdata, and below that for what is executed
	if comm != "conmon" || began.IsZero() || at < 0 || at+1 >= len(args) || path.Base(args[at+1]) != "userdata" {
		return false
	}
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path.Dir(args[at+1]), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BTIME|unix.STATX_MTIME, &st)
	made := st.Btime
	if st.Mask&unix.STATX_BTIME == 0 {
		made = st.Mtime // nothing is added to the directory later
	}
	return err == nil && time.Unix(made.Sec, int64(made.Nsec)).Before(began)
}

// others are the members that do not clean up, while there are such that do and their time is not up. What forks away meanwhile is
// killed after that.
func (k *Killer) others(members []proc.Stat) (others []proc.Stat, waits bool) {
	cleans, _ := cleaners(members)
	if len(cleans) == 0 {
		return nil, false
	}
	if k.cleanUntil.IsZero() {
		k.cleanUntil = time.Now().Add(min(k.Cleanup, maxCleanup))
	}
	if !time.Now().Before(k.cleanUntil) {
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(members), func(m proc.Stat) bool { return cleans[m.PID] }), true
}
