package session

import (
	"errors"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// ErrUnclear says that nothing tells whether a session lives.
var ErrUnclear = errors.New("its lock file is gone, and its record does not tell whether it lives")

// Alive is Held, also for a session whose lock file is gone while its record is there: what cleans /tmp by age removes the
// older of the two. It looks for the supervisor by its identity then, and for an anchor that will recover the session.
// With ErrNoLock there is no record either.
func (d *Directory) Alive(id string) (bool, error) {
	held, err := d.Held(id)
	if !errors.Is(err, ErrNoLock) {
		return held, err
	}
	rec, recErr := d.Read(id)
	if recErr != nil {
		if errors.Is(recErr, unix.ENOENT) {
			return false, err
		}
		return true, recErr
	}
	var r proc.Reader
	here, err := r.ReadHost()
	switch {
	case err != nil || rec.Host.Boot == "":
		return true, ErrUnclear
	case rec.Host.Boot != here.Boot:
		return false, nil
	case rec.Host != here:
		return true, ErrUnclear
	}
	supervisor, anchor := r.Life(rec.Supervisor), r.Life(rec.Anchor)
	switch {
	case supervisor == proc.Alive || anchor == proc.Alive:
		return true, nil
	case supervisor == proc.Dead && (anchor == proc.Dead || rec.Anchor.Zero()):
		return false, nil
	}
	return true, ErrUnclear
}
