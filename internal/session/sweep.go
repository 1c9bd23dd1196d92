package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
	"mcp-tether/internal/proc"
)

// A sweep holds a lock beside the records, so that one runs at a time however many sessions start. What it had to leave is
// written into the lock's file. Without that, each session would start a sweep for the same record again.

// sweepName begins the name of that file. It is no session id.
const sweepName = "sweep"

const (
	// sweepRests is how long no sweep follows one that has ended nothing.
	sweepRests = time.Minute
	// sweepForgets is for how long a record that could not be judged starts no sweep. What was in its way, such as another
	// pid namespace, may be over then, and no file says so.
	sweepForgets = time.Hour
	// maxLeft bounds what is read of the file, in bytes.
	maxLeft = 1 << 20
)

// Left is what a sweep has left in a directory.
type Left struct {
	// Host is where the sweep ran. Elsewhere another one may know more.
	Host proc.Host `json:"host"`
	// Idle says that it has ended nothing.
	Idle bool `json:"idle"`
	// Sessions are those that it could not judge, with what their files were like.
	Sessions map[string]string `json:"sessions"`
}

// TakeSweep takes the lock of a sweep. The error is ErrHeld while another one is under way.
func (d *Directory) TakeSweep() (*Lease, error) { return d.Take(sweepName) }

// EndSweep notes what a sweep has left, and lets the next one begin. A session of which tried is true was judged, and may be
// tried again. The file goes when no dead session is left.
func (l *Lease) EndSweep(here proc.Host, idle bool, tried func(id string) bool) error {
	left := Left{here, idle, map[string]string{}}
	dead := l.dir.dead()
	if len(dead) == 0 && !l.dir.HasDeadPlaces() {
		return l.Remove()
	}
	defer l.Release()
	for _, id := range dead {
		if !tried(id) {
			left.Sessions[id] = l.dir.files(id)
		}
	}
	b, err := json.Marshal(left)
	if err == nil {
		err = unix.Ftruncate(l.fd, 0)
	}
	if err == nil {
		_, err = unix.Pwrite(l.fd, b, 0)
	}
	if err != nil {
		return fmt.Errorf("note what was left in %s: %w", l.dir.Name, err)
	}
	return nil
}

// TidySweep removes what a sweep has left on disk for itself, if no dead session is there any more.
func (d *Directory) TidySweep() error {
	_, err := d.Held(sweepName)
	if errors.Is(err, ErrNoLock) || d.HasDeadPlaces() || len(d.dead()) > 0 {
		return nil
	}
	if err := d.Remove(sweepName); !errors.Is(err, ErrHeld) {
		return err
	}
	return nil
}

// Unswept reports whether there is anything that a sweep might end: a session whose supervisor is dead, or a host's place. What
// the last one has left does not count until it has changed. While another sweep is under way nothing counts.
func (d *Directory) Unswept() bool {
	if held, err := d.Held(sweepName); held && err == nil {
		return false
	}
	left, age := d.left()
	if left.Idle && age < sweepRests {
		return false
	}
	if d.HasDeadPlaces() {
		return true
	}
	for _, id := range d.dead() {
		if age >= sweepForgets || left.Sessions[id] != d.files(id) {
			return true
		}
	}
	return false
}

// left is what the last sweep has left, and how long ago. What was written elsewhere, or in the future, says nothing.
func (d *Directory) left() (l Left, age time.Duration) {
	var st unix.Stat_t
	b, err := d.at.ReadRegular(file(sweepName, lockSuffix), maxLeft)
	if err != nil || len(b) == 0 || d.at.Look(file(sweepName, lockSuffix), &st) != nil {
		return Left{}, 0
	}
	var r proc.Reader
	here, err := r.ReadHost()
	age = time.Since(kernel.Modified(&st))
	if json.Unmarshal(b, &l) != nil || err != nil || l.Host != here || age < 0 {
		return Left{}, 0
	}
	return l, age
}

// dead lists the sessions whose lock is free.
func (d *Directory) dead() (out []string) {
	ids, _ := d.IDs()
	for _, id := range ids {
		if held, err := d.Held(id); err == nil && !held {
			out = append(out, id)
		}
	}
	return out
}

// files says what the files of a session are like: each change of them makes it another text.
func (d *Directory) files(id string) (out string) {
	for _, s := range []suffix{recordSuffix, lockSuffix, journalSuffix} {
		var st unix.Stat_t
		if d.at.Look(file(id, s), &st) == nil {
			out += fmt.Sprintf("%s %d %d;", s, st.Ino, kernel.Modified(&st).UnixNano())
		}
	}
	return out
}
