package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Lease is the locked record of a session, or another locked file. Its descriptor is close-on-exec: no server inherits it.
type Lease struct {
	dir *Directory
	id  string
	fd  int
}

// Adopt is the lease of a session whose locked record another process of ours has left open.
func (d *Directory) Adopt(id string, fd int) *Lease { return &Lease{d, id, fd} }

// ErrHeld says that another living process holds the lock.
var ErrHeld = errors.New("session is held by a living supervisor")

// Take makes the record of a session, still empty, or opens the one that a dead process has left, and locks it. The record has its
// name only once it is locked: a free lock would look like a dead supervisor's. The directory must stay open.
func (d *Directory) Take(id string) (*Lease, error) {
	l, err := d.take(id, recordSuffix, 0)
	if !errors.Is(err, unix.ENOENT) {
		return l, err
	}
	if l, err = d.take(id, nextSuffix, unix.O_CREAT); err != nil {
		return nil, err
	}
	if err := d.at.Rename(file(id, nextSuffix), file(id, recordSuffix)); err != nil {
		_ = d.at.Unlink(file(id, nextSuffix))
		unix.Close(l.fd)
		return nil, fmt.Errorf("name record %s/%s: %w", d.Name, id, err)
	}
	return l, nil
}

// TakeLock makes a lock file that is no session's, or opens the one that is there, and locks it.
func (d *Directory) TakeLock(name string) (*Lease, error) {
	return d.take(name, lockSuffix, unix.O_CREAT)
}

// take opens and locks one file. It waits for nobody: a process that looks whether the lock is free (Held) has it for a moment, and
// the error is ErrHeld then.
func (d *Directory) take(id string, s suffix, flags int) (*Lease, error) {
	fd, err := d.at.Open(file(id, s), unix.O_RDWR|unix.O_NONBLOCK|flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", d.Name, file(id, s), err)
	}
	switch err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil && unlinked(fd):
		err = unix.ENOENT // Its holder has removed it meanwhile.
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrHeld
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("lock %s/%s: %w", d.Name, file(id, s), err)
	}
	return &Lease{d, id, fd}, nil
}

// block is what a record takes on most disks, in bytes. A record that fills it needs no more room when it is written again.
const block = 4 << 10

// Write writes the record over the last one. Reading meanwhile, others may see a part of both, and read again. A long record goes
// without its command line, which is for people. One that a full disk has cut short proves nothing until it is written again.
func (l *Lease) Write(r Record) error {
	b, err := json.Marshal(r)
	if len(b) >= proc.MaxRecord {
		r.Args = nil
		if b, err = json.Marshal(r); len(b) >= proc.MaxRecord {
			err = unix.EFBIG
		}
	}
	if err != nil {
		return fmt.Errorf("encode record %s: %w", l.id, err)
	}
	// A shorter one covers the last one with spaces, so that it takes one step.
	var was unix.Stat_t
	_ = unix.Fstat(l.fd, &was)
	pad := max(block-1-len(b)%block, int(min(was.Size, proc.MaxRecord))-1-len(b))
	b = append(append(b, bytes.Repeat([]byte{' '}, pad)...), '\n')
	n, err := unix.Pwrite(l.fd, b, 0)
	if err == nil && n < len(b) {
		err = unix.ENOSPC
	}
	if err != nil {
		return fmt.Errorf("write record %s: %w", l.id, err)
	}
	return nil
}

// Files are the paths of what is there as long as nothing else was made for the session.
func (l *Lease) Files() []string { return []string{l.dir.Name + "/" + file(l.id, recordSuffix)} }

// Dir is the directory of the record.
func (l *Lease) Dir() *Directory { return l.dir }

// Remove removes all that the session has on disk, and gives up the lock: the session is over. What is locked goes last, and only if
// everything else went: what has no record is never looked at again.
func (l *Lease) Remove() error {
	defer unix.Close(l.fd)
	for _, s := range []suffix{socketSuffix, nextSuffix, recordSuffix, lockSuffix} {
		if err := l.dir.at.Unlink(file(l.id, s)); err != nil {
			return err
		}
	}
	return nil
}

// Release gives up the lock and leaves the record for a reaper.
func (l *Lease) Release() { unix.Close(l.fd) }
