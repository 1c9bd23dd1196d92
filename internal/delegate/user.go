package delegate

import (
	"os/user"
	"strconv"

	"mcp-tether/internal/proc"
)

// User is the user that a child runs as.
type User struct {
	UID, GID int
	// Groups are the user's supplementary groups, as at a login.
	Groups []int
	// Name is the login name, or the number of a user without one.
	Name string
	// Home is "/nonexistent" for a user without one.
	Home string
	// Known says that the machine's list of users has this one.
	Known bool
	// Tasks is how many processes and threads the user has.
	Tasks int
}

// nogroup is the group of a user that is in no list (Debian's and the kernel's overflow group).
const nogroup = 65534

// lookup finds a user in the machine's list, /etc/passwd. A user that is not there has no groups and no home.
func lookup(uid int) User {
	number := strconv.Itoa(uid)
	entry, err := user.LookupId(number)
	if err != nil {
		return User{UID: uid, GID: nogroup, Name: number, Home: noHome}
	}
	u := User{UID: uid, GID: nogroup, Name: entry.Username, Home: entry.HomeDir, Known: true}
	if gid, err := strconv.Atoi(entry.Gid); err == nil {
		u.GID = gid
	}
	all, _ := entry.GroupIds()
	for _, g := range all {
		if gid, err := strconv.Atoi(g); err == nil && len(u.Groups) < maxGroups {
			u.Groups = append(u.Groups, gid)
		}
	}
	return u
}

const (
	// noHome is the home of a user without one.
	noHome = "/nonexistent"
	// maxGroups is how many fit into one word of a command line. The kernel takes 65536 (NGROUPS_MAX).
	maxGroups = 8192
)

// lookUp finds users, and what they run.
func lookUp(uids []int) []User {
	had, all := tasks(), make([]User, 0, len(uids))
	for _, uid := range uids {
		u := lookup(uid)
		u.Tasks = had[uid]
		all = append(all, u)
	}
	return all
}

// tasks counts the processes and threads of each user. What cannot be read is left out.
func tasks() map[int]int {
	var r proc.Reader
	out := map[int]int{}
	all, _ := r.All()
	for _, p := range all {
		if uid, err := proc.UID(p.PID); err == nil {
			out[uid] += max(p.Threads, 1)
		}
	}
	return out
}
