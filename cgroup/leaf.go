package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Prefix begins the name of every leaf that mcp-tether makes; the session id follows.
const Prefix = "mcp-tether-"

// Leaf is one cgroup v2 directory of ours.
type Leaf struct {
	// Dir is its absolute path.
	Dir string
	// fd is the leaf, kill its cgroup.kill, open for writing where the leaf was made here, and up the cgroup above it, from which the leaf
	// is removed. -1 is none.
	fd, kill, up int
}

// ErrNoKill says that the kernel does not kill a cgroup as a whole.
var ErrNoKill = errors.New("cgroups have no cgroup.kill (Linux 5.14)")

// Current finds the directory of the cgroup that this process is in. The error is ErrNone without cgroup v2.
func Current() (string, error) {
	mounts, err := proc.Read("/proc/self/mountinfo", nil)
	if err != nil {
		return "", err
	}
	self, err := proc.Read("/proc/self/cgroup", nil)
	if err != nil {
		return "", err
	}
	return findDir(mounts, self)
}

// Create makes the leaf parent/name and opens it. Errors: EACCES, EPERM or EROFS where the hierarchy is not delegated
// to this user, EEXIST when the name is taken, ErrNoKill before Linux 5.14.
func Create(parent, name string) (*Leaf, error) {
	dir := parent + "/" + name
	above, err := openCgroup(parent)
	if err != nil {
		return nil, fmt.Errorf("create cgroup %s: %w", dir, err)
	}
	if err := unix.Mkdirat(above, name, 0o755); err != nil {
		unix.Close(above)
		return nil, fmt.Errorf("create cgroup %s: %w", dir, err)
	}
	l := &Leaf{Dir: dir, kill: -1, up: above}
	l.fd, err = openDir(above, name)
	if err == nil && !l.usable() {
		err = fmt.Errorf("use cgroup %s: its type is not domain: %w", dir, unix.EOPNOTSUPP)
	}
	if err == nil {
		if l.kill, err = unix.Openat(l.fd, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
			l.kill, err = -1, ErrNoKill
		}
	}
	if err != nil {
		_ = unix.Unlinkat(above, name, unix.AT_REMOVEDIR)
		l.Close()
		return nil, err
	}
	return l, nil
}

// usable reports whether processes can be put into the leaf. "domain invalid" children of a threaded cgroup take none.
func (l *Leaf) usable() bool {
	b, err := proc.ReadAt(l.fd, "cgroup.type", nil)
	return err != nil || !bytes.Contains(b, []byte("invalid"))
}

// Open opens an existing leaf. No part of its path may be a link. From then on the leaf is the cgroup that was opened,
// even if another one gets its name.
func Open(dir string) (*Leaf, error) {
	above, err := openCgroup(path.Dir(dir))
	if err != nil {
		return nil, fmt.Errorf("open the cgroup above %s: %w", dir, err)
	}
	fd, err := onlyCgroup(openDir(above, path.Base(dir)))
	if err != nil {
		unix.Close(above)
		return nil, fmt.Errorf("open cgroup %s: %w", dir, err)
	}
	return &Leaf{Dir: dir, fd: fd, kill: -1, up: above}, nil
}

// Adopt makes a leaf of what another process has opened: the directory and its cgroup.kill. It opens nothing.
func Adopt(dir string, fd, kill int) *Leaf { return &Leaf{Dir: dir, fd: fd, kill: kill, up: -1} }

// IsGone reports whether an error says that there is no such cgroup.
func IsGone(err error) bool { return vanished(err) || errors.Is(err, ErrNone) }

// openCgroup opens a directory that must be one of cgroup v2: the error is ErrNone for others.
func openCgroup(dir string) (int, error) { return onlyCgroup(proc.OpenPath(dir)) }

// onlyCgroup passes on an opened directory of cgroup v2, and closes any other.
func onlyCgroup(fd int, err error) (int, error) {
	if err != nil {
		return -1, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		unix.Close(fd)
		return -1, ErrNone
	}
	return fd, nil
}

// FD is the descriptor for CLONE_INTO_CGROUP; -1 for a nil leaf. Linux 6.18 kills at once each process that clone3 makes in a
// cgroup that was ever killed.
func (l *Leaf) FD() int {
	if l == nil {
		return -1
	}
	return l.fd
}

// Close closes the descriptors; the leaf itself stays.
func (l *Leaf) Close() {
	for _, fd := range []int{l.fd, l.kill, l.up} {
		_ = unix.Close(fd)
	}
}

// Owner is the user that made the leaf.
func (l *Leaf) Owner() (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return -1, fmt.Errorf("look at cgroup %s: %w", l.Dir, err)
	}
	return int(st.Uid), nil
}

// KillFD is cgroup.kill of a leaf that was made here, open for writing. Who waits without a runtime can write to it.
func (l *Leaf) KillFD() int { return l.kill }

// inParent is where a file of the cgroup above the leaf is: a directory and a name. It opens nothing.
func (l *Leaf) inParent(file string) (dir int, name string) {
	if l.up >= 0 {
		return l.up, file
	}
	return unix.AT_FDCWD, path.Dir(l.Dir) + "/" + file
}

// Expel moves a process of the leaf, or of a cgroup below, to the parent cgroup. One that is elsewhere stays there: it may have a
// cgroup of its own, or a pid that was reused.
func (l *Leaf) Expel(pid int) error {
	if !l.Has(pid) {
		return nil
	}
	dir, file := l.inParent("cgroup.procs")
	err := proc.WriteAt(dir, file, strconv.Itoa(pid))
	if errors.Is(err, unix.EBUSY) { // It hands on controllers.
		dir, file = l.inParent(aside + "/cgroup.procs")
		err = proc.WriteAt(dir, file, strconv.Itoa(pid))
	}
	return err
}

// Kill has the kernel kill every process in the leaf and below, forks included (cgroup.kill, Linux 5.14).
func (l *Leaf) Kill() error {
	if l.kill < 0 {
		return proc.WriteAt(l.fd, "cgroup.kill", "1")
	}
	_, err := unix.Write(l.kill, []byte("1"))
	return err
}

// Populated reports whether any live process is in the leaf or below.
func (l *Leaf) Populated() (bool, error) {
	b, err := proc.ReadAt(l.fd, "cgroup.events", nil)
	if vanished(err) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	return bytes.Contains(b, []byte("populated 1")), nil
}

// Procs lists the pids in the leaf and below. A process of another pid namespace is left out. If the cgroups below cannot be
// listed, the leaf's own pids are returned with the error.
func (l *Leaf) Procs() ([]int, error) {
	pids, _, err := l.list()
	return pids, err
}

// HasUnseen reports whether a process of another pid namespace is in the leaf or below. Nothing else can be known about such a
// process. A list that cannot be read may hold one, so the answer is true.
func (l *Leaf) HasUnseen() bool {
	_, unseen, err := l.list()
	return unseen || err != nil
}

// list reads the pids in the leaf and below. A process of another pid namespace is listed as 0.
func (l *Leaf) list() (pids []int, unseen bool, err error) {
	add := func(dir int) error {
		b, err := proc.ReadAt(dir, "cgroup.procs", nil)
		for f := range bytes.FieldsSeq(b) {
			if pid, _ := strconv.Atoi(string(f)); pid > 0 {
				pids = append(pids, pid)
			} else {
				unseen = true
			}
		}
		return err
	}
	if err = add(l.fd); err == nil {
		err = l.below(func(_ int, _ string, dir int) error { return add(dir) })
	}
	return pids, unseen, err
}

// Has reports whether a process is in the leaf or below, as far as its /proc/PID/cgroup can be read.
func (l *Leaf) Has(pid int) bool {
	b, err := proc.Read(proc.Path(pid, "cgroup"), nil)
	p, _ := cgroupPath(b)
	// The mount point is not known here; the leaf's name is unique by its session id.
	return err == nil && strings.Contains(p+"/", l.Dir[strings.LastIndexByte(l.Dir, '/'):]+"/")
}
