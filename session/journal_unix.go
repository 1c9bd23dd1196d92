//go:build unix

package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/engine"
)

// Journal is the list of what a session did to its container engine, one note a line beside the record. It is appended to,
// so that a note costs one write and a killed supervisor loses none, and now and then replaced by a shorter one.
type Journal struct {
	name string
	next string
	fd   int // -1 until there is something to note
	torn bool
}

// NewJournal prepares the journal of a session; the file is made with the first note.
func NewJournal(dir, id string) *Journal {
	return &Journal{name: file(dir, id, journalSuffix), next: file(dir, id, nextNotes), fd: -1}
}

// Note appends one note. What was noted before stays when that fails.
func (j *Journal) Note(n engine.Note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode note for %s: %w", j.name, err)
	}
	if j.fd < 0 {
		fd, err := unix.Open(j.name, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return fmt.Errorf("create journal %s: %w", j.name, err)
		}
		j.fd = fd
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

// Replace replaces all notes. When that fails, those that were there stay.
func (j *Journal) Replace(notes []engine.Note) error {
	next := Journal{name: j.next, fd: -1}
	err := unlink(j.next) // one that was left
	for _, n := range notes {
		if err == nil {
			err = next.Note(n)
		}
	}
	if err == nil {
		err = unix.Rename(j.next, j.name)
	}
	if err != nil {
		next.Close()
		_ = unix.Unlink(j.next)
		return fmt.Errorf("replace journal %s: %w", j.name, err)
	}
	j.Close()
	j.fd, j.torn = next.fd, false
	return nil
}

// Reset empties the journal: nothing of what it told is left.
func (j *Journal) Reset() {
	if j.fd >= 0 && unix.Ftruncate(j.fd, 0) == nil {
		j.torn = false
	}
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

// ReadNotes reads the journal of a session. No journal is no notes. With ErrTorn, the notes are those that can be read.
func ReadNotes(dir, id string) ([]engine.Note, error) {
	name := file(dir, id, journalSuffix)
	b, err := readRegular(name, maxJournal)
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
