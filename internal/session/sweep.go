package session

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sweepName begins the name of a sweep's lock. The file stays: its time says when the last sweep began. It is no session id.
const sweepName = "sweep"

// SweepDue reports whether no sweep has begun within the last minute.
func (d *Directory) SweepDue() bool {
	var st unix.Stat_t
	name := file(sweepName, lockSuffix)
	return d.at.Look(name, &st) != nil || d.isOld(name)
}

// TakeSweep takes the lock of a sweep. The error is ErrHeld while another one is under way, or where none is due.
func (d *Directory) TakeSweep() (*Lease, error) {
	if !d.SweepDue() {
		return nil, ErrHeld
	}
	l, err := d.TakeLock(sweepName)
	if err == nil {
		now := unix.NsecToTimeval(time.Now().UnixNano())
		_ = unix.Futimes(l.fd, []unix.Timeval{now, now})
	}
	return l, err
}

// HasDead reports whether there is anything that a sweep might end: a session whose supervisor is dead, or a host's place.
func (d *Directory) HasDead() bool {
	ids, _ := d.IDs()
	return d.hasDeadPlaces() || slices.ContainsFunc(ids, func(id string) bool {
		held, err := d.Held(id)
		return err == nil && !held
	})
}
