package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/engine"
)

// Journal is the list of what a session did to its container engine, one note a line beside the record. It is appended
// to, so that a note costs one write and a killed supervisor loses none. Now and then it is replaced by a shorter one.
type Journal struct {
	dir  *Directory
	name string
	next string
	fd   int // -1 until there is something to note
	torn bool
}

// Journal prepares the journal of a session; the file is made with the first note. The directory must stay open.
func (d *Directory) Journal(id string) *Journal {
	return &Journal{dir: d, name: file(id, journalSuffix), next: file(id, nextNotes), fd: -1}
}

// Note appends one note. What was noted before stays when that fails.
func (j *Journal) Note(n engine.Note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode note for %s: %w", j.name, err)
	}
	if err := j.open(); err != nil {
		return err
	}
	b = append(b, '\n')
	if j.torn {
		b = append([]byte{'\n'}, b...)
	}
	written, err := unix.Write(j.fd, b)
	if err == nil && written < len(b) {
		err = unix.ENOSPC
	}
	j.torn = j.torn && err != nil || written > 0 && written < len(b)
	if err != nil {
		return fmt.Errorf("write journal %s: %w", j.name, err)
	}
	return nil
}

func (j *Journal) open() error {
	if j.fd >= 0 {
		return nil
	}
	fd, err := j.dir.at.Open(j.name, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("create journal %s: %w", j.name, err)
	}
	j.fd = fd
	return nil
}

// Replace replaces all notes. When that fails, those that were there stay.
func (j *Journal) Replace(notes []engine.Note) error {
	var all []byte
	for _, n := range notes {
		b, err := json.Marshal(n)
		if err != nil {
			return fmt.Errorf("encode note for %s: %w", j.name, err)
		}
		all = append(append(all, b...), '\n')
	}
	if err := j.dir.at.Replace(j.name, j.next, all); err != nil {
		return err
	}
	j.Close()
	j.torn = false
	return j.open()
}

// Reset empties the journal, also of the notes of an earlier Journal: nothing that it lists is left.
func (j *Journal) Reset() error {
	if j.fd < 0 { // There may be no descriptor to open it with.
		return j.dir.at.Unlink(j.name)
	}
	if err := unix.Ftruncate(j.fd, 0); err != nil {
		return fmt.Errorf("empty journal %s: %w", j.name, err)
	}
	j.torn = false
	return nil
}

// Close closes the file and leaves it.
func (j *Journal) Close() {
	if j.fd >= 0 {
		unix.Close(j.fd)
	}
	j.fd = -1
}

// maxJournal bounds what is read of a journal, in bytes.
const maxJournal = 8 << 20

// ErrTorn says that a journal has lines that cannot be read: the disk was full, or another process wrote to it.
var ErrTorn = errors.New("journal is damaged")

// Notes reads the journal of a session. No journal is no notes. With ErrTorn, the notes are those that can be read.
func (d *Directory) Notes(id string) ([]engine.Note, error) {
	name := file(id, journalSuffix)
	b, err := d.at.ReadRegular(name, maxJournal)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []engine.Note
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		var n engine.Note
		if line == "" {
			continue
		}
		if json.Unmarshal([]byte(line), &n) != nil {
			err = fmt.Errorf("read %s: %w", name, ErrTorn)
			continue
		}
		out = append(out, n)
	}
	return out, err
}
