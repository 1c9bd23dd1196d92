package proc

import (
	"errors"
	"os"
	"path"

	"mcp-tether/internal/waiting"
)

// Owner is a process whose end ends a session: the parent, or the gateway behind a parent that is a launcher.
type Owner struct {
	// ID has only a PID if the process cannot be read (hidepid, another pid namespace).
	ID
	// FD is a close-on-exec pidfd, which polls readable once the process has ended. It is -1 where there is none; then
	// Ended is to be asked every LookPause.
	FD int
	// Child is a living process of ours whose parent this one is, or 0. It gets another parent when this one ends.
	Child int
	// Comm is its command name, "" if it cannot be read.
	Comm string
}

// watch opens a pidfd of a process. The error is ErrGone: it has ended.
func (r *Reader) watch(pid int) (Owner, error) {
	o := Owner{ID: ID{PID: pid}, FD: -1}
	fd, err := OpenPidfd(pid)
	if err == nil {
		o.FD = fd
	}
	if s, serr := r.Stat(pid); serr == nil {
		o.ID, o.Comm = s.ID, s.Comm
	}
	if errors.Is(err, ErrGone) {
		return o, err
	}
	return o, nil
}

// Spawned is what the gateway has started, the caller or the waiter before a front, and its parent.
func Spawned() (pid, parent int) {
	if role, page, _, _ := waiting.Entered(); role == waiting.Front {
		return page.Pid.Anchor, page.Pid.Parent
	}
	return os.Getpid(), os.Getppid()
}

// watchParent watches the parent of what the gateway has started. The parent may end while that begins: the error is ErrGone. A
// parent outside of the pid namespace (pid 0) has no pidfd, and its end changes nothing.
func (r *Reader) watchParent() (Owner, error) {
	child, pid := Spawned()
	o, err := Owner{FD: -1}, error(nil)
	if pid > 0 {
		o, err = r.watch(pid)
	}
	o.Child = child
	if err == nil && pid > 0 && r.parentOf(child) != pid {
		err = ErrGone
	}
	return o, err
}

// parentOf is the parent of a living process of ours; -1 where that cannot be read.
func (r *Reader) parentOf(child int) int {
	if child == os.Getpid() {
		return os.Getppid()
	}
	if s, err := r.Stat(child); err == nil {
		return s.PPID
	}
	return -1
}

// WatchGateway watches the gateway behind a parent that is a launcher (Gateway). Where there is none behind it, behind is false.
// The error is ErrGone: the gateway has ended.
func (r *Reader) WatchGateway(parent int) (o Owner, behind bool, err error) {
	g := Gateway(parent, path.Base(os.Args[0]), r.Stat, r.Args)
	if g.PID == 0 || g.PID == parent {
		return Owner{FD: -1}, false, nil
	}
	o, err = r.watch(g.PID)
	if err == nil && o.Start != 0 && o.ID != g.ID {
		err = ErrGone
	}
	return o, true, err
}

// WatchOwners watches the parent of the caller and, if that is a launcher, the gateway behind it. The error is ErrGone if one
// has ended. The parent is always returned.
func (r *Reader) WatchOwners() (owners []Owner, err error) {
	parent, err := r.watchParent()
	owners = append(owners, parent)
	if err != nil {
		return owners, err
	}
	gateway, behind, err := r.WatchGateway(parent.PID)
	if behind {
		owners = append(owners, gateway)
	}
	return owners, err
}

// Ended reports whether an owner has ended, as far as that can be known.
func (r *Reader) Ended(o Owner) bool {
	switch {
	case o.FD >= 0:
		return exited(o.FD)
	case o.Child > 0:
		pid := r.parentOf(o.Child)
		return pid >= 0 && pid != o.PID
	}
	return o.Start != 0 && r.Life(o.ID) == Dead
}
