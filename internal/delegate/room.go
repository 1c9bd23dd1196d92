package delegate

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// room is a user's cgroup below root's own, for the time that a child is that user. What the child starts, such as the
// user's docker command, cannot leave it and is killed with it.
//
// It has the user's number for a name. So two passes of root share it, and a pass finds what a killed one has left.
// Those that use it hold a shared lock, and the last one removes it. The lock is on cgroup.kill, the one file there that
// none but root may open.
type room struct {
	leaf *cgroup.Leaf
	// procs and kill are cgroup.procs and cgroup.kill, open for writing. kill is the leaf's.
	procs, kill int
}

const (
	// roomPrefix begins no session's leaf (cgroup.Prefix).
	roomPrefix = "mcp-tether.as."
	// roomTries bounds how often a room vanishes while it is entered, and removeTries the milliseconds until the kernel
	// has let go of what was killed.
	roomTries   = 30
	roomPause   = 10 * time.Millisecond
	removeTries = 200
)

// errNoRoom says that a room cannot be used.
var errNoRoom = errors.New("it vanishes, cannot be emptied, or is not root's")

// enter makes or finds the room of a user. There is none without a cgroup v2 that root may write to.
func enter(uid int) (*room, error) {
	above, err := cgroup.Current()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprint(roomPrefix, uid)
	for range roomTries {
		leaf, err := cgroup.Create(above, name)
		if errors.Is(err, unix.EEXIST) {
			leaf, err = cgroup.Open(above + "/" + name)
		}
		if err == nil {
			var r *room
			if r, err = lock(leaf); err == nil {
				return r, nil
			}
			leaf.Close()
		}
		if !cgroup.IsGone(err) && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		proc.Sleep(roomPause)
	}
	return nil, fmt.Errorf("use cgroup %s/%s: %w", above, name, errNoRoom)
}

// lock takes the shared lock of a room. The error is EWOULDBLOCK or ENOENT for one that is removed just now.
func lock(leaf *cgroup.Leaf) (*room, error) {
	if owner, err := leaf.Owner(); err != nil || owner != os.Getuid() {
		return nil, errNoRoom
	}
	leaf.Hold()
	fds := leaf.Descriptors()
	kill := len(fds) - 1 // the last of what Hold opens
	if kill < 4 {
		_ = leaf.Remove() // Without cgroup.kill (before Linux 5.14) it could not be emptied, once something is in it.
		return nil, errNoRoom
	}
	if err := unix.Flock(fds[kill], unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return nil, err
	}
	if leaf.Gone() {
		return nil, unix.ENOENT
	}
	procs, err := leaf.OpenProcs()
	if err != nil {
		return nil, err
	}
	return &room{leaf, procs, fds[kill]}, nil
}

// moveTo is the descriptor through which a child moves into the room, -1 without a room.
func (r *room) moveTo() int {
	if r == nil {
		return -1
	}
	return r.procs
}

// leave kills all that is in the room and removes it, unless another child of that user is in it.
func (r *room) leave() {
	if r == nil {
		return
	}
	if unix.Flock(r.kill, unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = r.leaf.Kill()
		_ = r.leaf.RemoveSoon(removeTries)
	}
	_ = unix.Close(r.procs)
	r.leaf.Close()
}
