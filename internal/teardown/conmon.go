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

// cleanup is the time that is given to what cleans up. The zero value has not begun.
type cleanup struct{ until time.Time }

// others are the members that do not clean up, while there are such that do and their time is not up: limit after the first
// call that has met one.
func (c *cleanup) others(members []proc.Stat, limit time.Duration) (others []proc.Stat, waits bool) {
	cleans := cleaners(members)
	if len(cleans) == 0 {
		return nil, false
	}
	if c.until.IsZero() {
		c.until = time.Now().Add(min(limit, MaxCleanup))
	}
	if !time.Now().Before(c.until) {
		return nil, false
	}
	for _, m := range members {
		if !cleans[m.PID] {
			others = append(others, m)
		}
	}
	return others, true
}

// killOthers kills all members but those that clean up, while these have time. What forks away meanwhile is killed after that.
func (s *Scope) killOthers(members []proc.Stat) (sent []Sent, waits bool) {
	others, waits := s.cleaning.others(members, s.Cleanup)
	return signalAll(&s.reader, others, unix.SIGKILL), waits
}

// killOthers does the same for all groups, if the last round has met what cleans up.
func (b *Batch) killOthers() (left int, waits bool, err error) {
	if !b.cleans {
		return 0, false, nil
	}
	t, err := b.look()
	if err != nil {
		return 0, false, err
	}
	var all []proc.Stat
	for _, gr := range b.Groups {
		all = append(all, gr.members(t)...)
		left += gr.left
	}
	others, waits := b.cleaning.others(all, b.limit)
	signalAll(&b.reader, others, unix.SIGKILL)
	return left, waits, nil
}
