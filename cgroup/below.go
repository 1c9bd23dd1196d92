package cgroup

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
)

// Cgroups below a leaf are reached from directory to directory, by descriptor. A server may nest them until no path
// name is long enough for the deepest.

// maxDepth bounds how deep below looks, and with it how many descriptors it has open at a time.
const maxDepth = 256

// errTooDeep says that the cgroups below a leaf are nested deeper than maxDepth.
var errTooDeep = errors.New("nested too deep")

// below calls visit for the cgroups below the leaf, with a descriptor of each. Cgroups that vanish meanwhile are
// skipped.
func (l *Leaf) below(visit func(dir int) error) error {
	if err := belowDir(l.fd, maxDepth, visit); err != nil {
		return fmt.Errorf("look below cgroup %s: %w", l.Dir, err)
	}
	return nil
}

func belowDir(dir, depth int, visit func(dir int) error) error {
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
			err = errors.Join(visit(child), belowDir(child, depth-1, visit))
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

// Remove removes the leaf and the cgroups below it, however deep. A leaf that is gone is no error; EBUSY means that a
// process is still in it. Then nothing below it is removed either: an empty cgroup may be that of another living session.
func (l *Leaf) Remove() error {
	l.stepBack()
	// As a rule nothing is below it, and nothing need be opened.
	if err := l.removeSelf(); err == nil || vanished(err) {
		return nil
	}
	var below error
	for populated, unknown := l.Populated(); !populated || unknown != nil; {
		deeper, err := l.removeDeepest()
		if err != nil && !vanished(err) {
			below = fmt.Errorf("remove cgroup below %s: %w", l.Dir, err)
			break
		}
		if !deeper {
			break
		}
	}
	// If the cgroups below could not be listed, there may still be none.
	err := l.removeSelf()
	if err == nil || vanished(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("remove cgroup %s: %w", l.Dir, err), below)
}

// RemoveSoon is Remove, tried again each millisecond: the kernel takes a moment to let go of a leaf whose last process has just
// ended. It waits on the calling thread, because package time would hand the work to another one, which cannot always be had.
func (l *Leaf) RemoveSoon(tries int) (err error) {
	for range tries {
		if err = l.Remove(); err == nil {
			return nil
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	return err
}

// removeSelf removes the leaf from the cgroup above it.
func (l *Leaf) removeSelf() error {
	if err := l.inPlace(); err != nil {
		return err
	}
	return unix.Unlinkat(l.up, path.Base(l.Dir), unix.AT_REMOVEDIR)
}

// Gone reports whether the leaf was removed. Another cgroup may have its name by now.
func (l *Leaf) Gone() bool { return vanished(l.inPlace()) }

// inPlace looks for the leaf in the cgroup above it. If another cgroup there has the leaf's name, the leaf is gone.
func (l *Leaf) inPlace() error {
	var own, named unix.Stat_t
	err := unix.Fstat(l.fd, &own)
	if err == nil {
		err = unix.Fstatat(l.up, path.Base(l.Dir), &named, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && (own.Ino != named.Ino || own.Dev != named.Dev) {
		err = unix.ENOENT
	}
	return err
}

// removeDeepest goes down to a cgroup with nothing below it and removes that and its siblings, and reports whether there
// was one.
func (l *Leaf) removeDeepest() (found bool, err error) {
	dir, err := unix.FcntlInt(uintptr(l.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer func() { unix.Close(dir) }()
	for {
		names, err := children(dir)
		if err != nil || len(names) == 0 {
			return false, err
		}
		next := -1
		for _, name := range names {
			if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err == nil {
				found = true
				continue
			}
			if next < 0 && !vanished(err) {
				next, err = openDir(dir, name)
				if err != nil {
					return found, err
				}
				below, err := children(next)
				if err != nil || len(below) == 0 {
					// A process is in it.
					unix.Close(next)
					return found, errors.Join(err, unix.EBUSY)
				}
			}
		}
		if next < 0 {
			return found, nil
		}
		unix.Close(dir)
		dir = next
	}
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
	return kernel.DirsAt(dir)
}
