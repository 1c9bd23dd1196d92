package session

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Stored is a session that has a record, and the state of its lease.
type Stored struct {
	// Record has only an ID if nothing is written yet, or if it cannot be read.
	Record
	// Dir is the directory of the record.
	Dir *Directory
	// Held says that a living process holds the lease, or that this could not be found out.
	Held bool
	// Unread says why the record or its lease cannot be read; nil if they can, or if nothing is written yet.
	Unread error
}

// errSlow says that no record was read.
var errSlow = fmt.Errorf("the records cannot be read within %v: look at their file systems, and for damaged records among very many "+
	"(mcp-tether doctor says where they are)", proc.FilesTime)

// ReadAll reads the user's records, in bounded time. left are the directories that could not be read: they may have more. The caller
// closes dirs.
func ReadAll(xdgRuntime string) (all []Stored, dirs []*Directory, left []error) {
	var read struct {
		all  []Stored
		dirs []*Directory
		left []error
	}
	if !proc.InTime(proc.FilesTime, func() {
		read.dirs, read.left = OpenAllBut(os.Getuid(), xdgRuntime)
		for _, dir := range read.dirs {
			all, err := dir.ReadAll()
			if err != nil {
				read.left = append(read.left, err)
			}
			read.all = append(read.all, all...)
		}
	}) {
		return nil, nil, []error{errSlow} // The directories stay open: they are still being read.
	}
	return read.all, read.dirs, read.left
}

// ReadAll reads the records of a directory. Those that may be being written are read again, all of them for as long as Read does one:
// a full disk cuts many short.
func (d *Directory) ReadAll() (all []Stored, err error) {
	ids, err := d.IDs()
	for _, id := range ids {
		if s, ok := d.stored(id); ok {
			all = append(all, s)
		}
	}
	mayBeWritten := func(s Stored) bool { return s.Held && isTorn(s.Unread) }
	for until := time.Now().Add(tornTime); slices.ContainsFunc(all, mayBeWritten) && time.Now().Before(until); {
		time.Sleep(tornPause)
		left := all[:0]
		for _, s := range all {
			ok := true
			if mayBeWritten(s) {
				s, ok = d.stored(s.ID)
			}
			if ok {
				left = append(left, s)
			}
		}
		all = left
	}
	return all, err
}

// stored reads one session; ok is false if it has ended meanwhile.
func (d *Directory) stored(id string) (s Stored, ok bool) {
	held, err := d.Held(id)
	if errors.Is(err, unix.ENOENT) {
		return s, false
	}
	s = Stored{Dir: d, Held: held, Unread: err}
	if s.Record, err = d.read(id); err != nil {
		s.Record = Record{ID: id}
		if !errors.Is(err, unix.ENOENT) { // else its supervisor is about to write it, or died before it could
			s.Unread = err
		}
	}
	return s, true
}
