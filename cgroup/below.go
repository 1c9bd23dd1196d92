package cgroup

import (
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// maxDepth bounds how many levels of cgroups are looked through, and with it how many descriptors are open for that.
const maxDepth = 64

// errTooDeep says that cgroups are nested deeper than maxDepth.
var errTooDeep = errors.New("nested too deep")

// below calls visit for the cgroups below the leaf, the deepest first: with a descriptor of each and of the cgroup that it is in.
// Cgroups that vanish meanwhile are skipped.
func (l *Leaf) below(visit func(up int, name string, dir int) error) error {
	if err := belowDir(l.fd, maxDepth, visit); err != nil {
		return fmt.Errorf("look below cgroup %s: %w", l.Dir, err)
	}
	return nil
}

func belowDir(dir, depth int, visit func(up int, name string, dir int) error) error {
	names, err := children(dir)
	if err != nil {
		return err
	}
	if depth == 0 && len(names) > 0 {
		return errTooDeep
	}
	for _, name := range names {
		child, err := openDir(dir, name)
		if err == nil {
			if err = belowDir(child, depth-1, visit); err == nil || vanished(err) {
				err = visit(dir, name, child)
			}
			unix.Close(child)
		}
		if err != nil && !vanished(err) {
			return err
		}
	}
	return nil
}

// vanished reports whether the error says that a cgroup was removed.
func vanished(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }

// Remove removes the leaf and the cgroups below it. A leaf that is gone is no error; EBUSY means that a process is still in
// it. Then nothing below it is removed either: an empty cgroup may be that of another living session.
func (l *Leaf) Remove() error {
	// As a rule nothing is below it, and nothing need be opened.
	err := l.removeSelf()
	if err == nil || vanished(err) {
		return nil
	}
	if populated, unknown := l.Populated(); !populated || unknown != nil {
		below := l.below(func(up int, name string, _ int) error { return unix.Unlinkat(up, name, unix.AT_REMOVEDIR) })
		// If the cgroups below could not be listed, there may still be none.
		if err = l.removeSelf(); err == nil || vanished(err) {
			return nil
		}
		err = errors.Join(err, below)
	}
	return fmt.Errorf("remove cgroup %s: %w", l.Dir, err)
}

// RemoveSoon is Remove, tried again each millisecond: the kernel takes a moment to let go of a leaf whose last process has just
// ended.
func (l *Leaf) RemoveSoon(tries int) (err error) {
	for range tries {
		if err = l.Remove(); err == nil {
			return nil
		}
		proc.Sleep(time.Millisecond)
	}
	return err
}

// removeSelf removes the leaf from the cgroup above it.
func (l *Leaf) removeSelf() error {
	if err := l.inPlace(); err != nil {
		return err
	}
	dir, name := l.inParent(path.Base(l.Dir))
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// Gone reports whether the leaf was removed. Another cgroup may have its name by now.
func (l *Leaf) Gone() bool { return vanished(l.inPlace()) }

// inPlace looks for the leaf in the cgroup above it. If another cgroup there has the leaf's name, the leaf is gone.
func (l *Leaf) inPlace() error {
	var own, named unix.Stat_t
	err := unix.Fstat(l.fd, &own)
	if err == nil {
		dir, name := l.inParent(path.Base(l.Dir))
		err = unix.Fstatat(dir, name, &named, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && (own.Ino != named.Ino || own.Dev != named.Dev) {
		err = unix.ENOENT
	}
	return err
}

func openDir(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// children lists the cgroups directly below a directory. Most leaves have none, which the link count tells (kernfs counts
// "." and ".." and one for each child).
func children(dir int) ([]string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return nil, err
	}
	if st.Nlink <= 2 {
		return nil, nil
	}
	return proc.DirsAt(dir)
}
