//go:build unix

package session

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxRecord bounds a record file, in bytes.
const maxRecord = 64 << 10

// Read reads a record. Symbolic links, FIFOs, oversized files, unknown versions and records that do not name their own
// file are errors: such a record proves nothing.
func Read(dir, id string) (Record, error) {
	name := file(dir, id, recordSuffix)
	b, err := readRegular(name, maxRecord)
	if err != nil {
		return Record{}, err
	}
	return parse(b, name, id)
}

// readRegular reads a file that must be a regular one of at most limit bytes.
func readRegular(name string, limit int64) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at %s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > limit {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", name, limit)
	}
	b := make([]byte, st.Size)
	for done := 0; done < len(b); {
		n, err := unix.Read(fd, b[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if n == 0 {
			return b[:done], nil
		}
		done += n
	}
	return b, nil
}

func parse(b []byte, name, id string) (Record, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("parse record %s: %w", name, err)
	}
	if r.Version != Version {
		return Record{}, fmt.Errorf("record %s has version %d, this program reads %d", name, r.Version, Version)
	}
	if r.ID != id {
		return Record{}, fmt.Errorf("record %s names session %.40q", name, r.ID)
	}
	return r, nil
}
