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
	dir *Directory
	id  string
	fd  int
}

// Adopt is the lease of a session whose locked file another process of ours has left open.
func (d *Directory) Adopt(id string, fd int) *Lease { return &Lease{d, id, fd} }

// ErrHeld says that another living process holds the lock.
var ErrHeld = errors.New("session is held by a living supervisor")

// Take creates the lock file of a session (or opens the one left by a dead supervisor) and locks it. The lock is never
// seen free before its session has ended: a free lock would look like a dead supervisor's. The directory must stay
// open.
func (d *Directory) Take(id string) (*Lease, error) {
	name := file(id, lockSuffix)
	for n := 0; ; n++ {
		fd, err := d.at.Open(name, unix.O_RDWR|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.ENOENT) {
			fd, err = d.createUnnamed(name)
			if err != nil && !errors.Is(err, unix.EEXIST) {
				fd, err = d.createNamed(name, file(id, newLockSuffix), n)
			}
		} else if err == nil {
			err = lockExisting(fd)
		}
		switch {
		case err == nil:
			return &Lease{d, id, fd}, nil
		case errors.Is(err, unix.EEXIST) && n < lockTries:
			time.Sleep(lockPause)
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("lock %s/%s: %w", d.Name, name, ErrHeld)
		default:
			return nil, fmt.Errorf("take lock %s/%s: %w", d.Name, name, err)
		}
	}
}

// createUnnamed makes a lock file that gets its name once it is locked: a process that is killed before leaves nothing.
// EEXIST says that another process has made the lock meanwhile; after any other error, Take uses createNamed.
func (d *Directory) createUnnamed(name string) (int, error) {
	fd, err := d.at.Unnamed(0o600)
	if err != nil {
		return -1, err
	}
	if err := lockOrClose(fd); err != nil {
		return -1, err
	}
	if err := d.at.LinkUnnamed(fd, name); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// createNamed makes the lock file where the file system has no files without a name. The file has another name first,
// and is linked to its own once the lock is held. EEXIST says that another process has made the lock, or is about to.
// The last try removes what a killed process left under the other name.
func (d *Directory) createNamed(name, fresh string, try int) (int, error) {
	if try == lockTries-1 {
		_ = d.at.Unlink(fresh)
	}
	fd, err := d.at.Open(fresh, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return -1, err
	}
	err = lockOrClose(fd)
	if err == nil {
		if err = d.at.Link(fresh, name); err != nil {
			unix.Close(fd)
		}
	}
	_ = d.at.Unlink(fresh)
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

// How often and how long to wait for a lock: a process that checks whether it is held takes it for a moment (Held).
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

// Write replaces the record. On a full disk the previous record stays. A long one goes without its command line, which is
// for people.
func (l *Lease) Write(r Record) error {
	b, err := json.Marshal(r)
	if len(b) >= maxRecord {
		r.Args = nil
		if b, err = json.Marshal(r); len(b) >= maxRecord {
			err = unix.EFBIG
		}
	}
	if err != nil {
		return fmt.Errorf("encode record %s: %w", l.id, err)
	}
	return l.dir.at.Replace(file(l.id, recordSuffix), file(l.id, nextSuffix), append(b, '\n'))
}

// Files are the paths of what is there as long as nothing else was made for the session.
func (l *Lease) Files() []string {
	return []string{l.dir.Name + "/" + file(l.id, recordSuffix), l.dir.Name + "/" + file(l.id, lockSuffix)}
}

// Dir is the directory of the record.
func (l *Lease) Dir() *Directory { return l.dir }

// Remove removes all that the session has on disk, and gives up the lock: the session is over. The lock goes last, and
// only if everything else went: a record without a lock is never looked at again.
func (l *Lease) Remove() error {
	defer unix.Close(l.fd)
	var errs []error
	for _, s := range []suffix{journalSuffix, nextNotes, socketSuffix, recordSuffix, nextSuffix, newLockSuffix} {
		errs = append(errs, l.dir.at.Unlink(file(l.id, s)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return l.dir.at.Unlink(file(l.id, lockSuffix))
}

// Release gives up the lock and leaves the record for a reaper.
func (l *Lease) Release() { unix.Close(l.fd) }
