//go:build unix

package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Lease is a held lock with its record. Its descriptor is close-on-exec: no server inherits it.
type Lease struct {
	dir, id string
	fd      int
}

// ErrHeld says that another living process holds the lock.
var ErrHeld = errors.New("session is held by a living supervisor")

// Take creates the lock file of a session (or opens the one left by a dead supervisor) and locks it. The lock is never
// seen free before its session has ended: that would look like a dead supervisor's.
func Take(dir, id string) (*Lease, error) {
	name := file(dir, id, lockSuffix)
	for n := 0; ; n++ {
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.ENOENT) {
			fd, err = createUnnamed(dir, name)
			if err != nil && !errors.Is(err, unix.EEXIST) {
				fd, err = createNamed(name, file(dir, id, newLockSuffix), n)
			}
		} else if err == nil {
			err = lockExisting(fd)
		}
		switch {
		case err == nil:
			return &Lease{dir, id, fd}, nil
		case errors.Is(err, unix.EEXIST) && n < lockTries:
			time.Sleep(lockPause)
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("lock %s: %w", name, ErrHeld)
		default:
			return nil, fmt.Errorf("take lock %s: %w", name, err)
		}
	}
}

// createNamed makes the lock file where the file system has no files without a name: under another name, which it links
// once it holds the lock. EEXIST says that another process has made the lock, or is about to. The last try removes what
// a killed process left under the other name.
func createNamed(name, fresh string, try int) (int, error) {
	if try == lockTries-1 {
		_ = unix.Unlink(fresh)
	}
	fd, err := unix.Open(fresh, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return -1, err
	}
	err = lockOrClose(fd)
	if err == nil {
		if err = unix.Link(fresh, name); err != nil {
			unix.Close(fd)
		}
	}
	_ = unix.Unlink(fresh)
	return fd, err
}

// lockExisting locks a lock file that was found. EEXIST says that it was removed meanwhile.
func lockExisting(fd int) error {
	err := lockOrClose(fd)
	if err == nil && unlinked(fd) {
		unix.Close(fd)
		return unix.EEXIST
	}
	return err
}

func lockOrClose(fd int) error {
	err := lock(fd)
	if err != nil {
		unix.Close(fd)
	}
	return err
}

// How often and how long to wait for a lock: a process that looks whether it is held holds it for a moment (Held).
const (
	lockTries = 25
	lockPause = 2 * time.Millisecond
)

func lock(fd int) error {
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	for n := 0; n < lockTries && errors.Is(err, unix.EWOULDBLOCK); n++ {
		time.Sleep(lockPause)
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	return err
}

// Record is the path of the record.
func (l *Lease) Record() string { return file(l.dir, l.id, recordSuffix) }

// Write replaces the record. On a full disk the previous record stays.
func (l *Lease) Write(r Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record %s: %w", l.id, err)
	}
	next := file(l.dir, l.id, nextSuffix)
	if err := writeNew(next, append(b, '\n')); err != nil {
		_ = unix.Unlink(next)
		return err
	}
	if err := unix.Rename(next, l.Record()); err != nil {
		_ = unix.Unlink(next)
		return fmt.Errorf("replace record %s: %w", l.Record(), err)
	}
	return nil
}

func writeNew(name string, b []byte) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			unix.Close(fd)
			return fmt.Errorf("write %s: %w", name, err)
		}
		b = b[n:]
	}
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close %s: %w", name, err)
	}
	return nil
}

// Dir is the directory of the record.
func (l *Lease) Dir() string { return l.dir }

// Remove removes all that the session has on disk, and lets go: the session is over. The lock goes last, and only if
// everything else went: a record without a lock is never looked at again.
func (l *Lease) Remove() error {
	defer unix.Close(l.fd)
	var errs []error
	for _, s := range []suffix{journalSuffix, nextNotes, socketSuffix, recordSuffix, nextSuffix, newLockSuffix} {
		errs = append(errs, unlink(file(l.dir, l.id, s)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return unlink(file(l.dir, l.id, lockSuffix))
}

// Release lets go and leaves the record for a reaper.
func (l *Lease) Release() { unix.Close(l.fd) }

func unlink(name string) error {
	if err := unix.Unlink(name); err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
