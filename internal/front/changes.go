package front

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/share"
)

// changes tells of files that change (--restart-on). A file is watched by way of its directory: editors and compilers put another
// one in its place. The kernel tells, so nothing is done as long as nothing changes.
type changes struct {
	fd int
	// names are those that count in a directory, by its watch; nil where all do.
	names map[int32][]string
	// settleAt is when the last change is old enough; zero without one.
	settleAt time.Time
}

// settlePause is how long nothing must have changed: a build writes many files.
const settlePause = 300 * time.Millisecond

// changed are the events that may be another version of a file.
const changed = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ATTRIB

// watchFor begins to watch paths. A file may come later, a directory must be there.
func watchFor(paths []string) (c changes, err error) {
	if len(paths) == 0 {
		return c, nil
	}
	c.names = map[int32][]string{}
	if c.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return c, fmt.Errorf("watch for changes (--restart-on): %w", err)
	}
	for _, path := range paths {
		dir, name := path, ""
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			dir, name = filepath.Split(filepath.Clean(path))
		}
		wd, err := unix.InotifyAddWatch(c.fd, filepath.Clean(dir), changed|unix.IN_ONLYDIR)
		if err != nil {
			return c, fmt.Errorf("--restart-on %s: watch %s: %w", path, filepath.Clean(dir), err)
		}
		before, known := c.names[int32(wd)]
		switch {
		case name == "" || known && before == nil:
			c.names[int32(wd)] = nil
		default:
			c.names[int32(wd)] = append(before, name)
		}
	}
	return c, nil
}

// polled is the descriptor to wait for, -1 where nothing is watched.
func (c *changes) polled() int {
	if c.names == nil {
		return -1
	}
	return c.fd
}

func (c *changes) read(now time.Time) {
	var buf [16 << 10]byte
	for {
		n, err := unix.Read(c.fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		if c.counts(buf[:n]) {
			c.settleAt = now.Add(settlePause)
		}
	}
}

// counts reports whether one of the events (inotify(7)) is about what is watched for, or some were lost.
func (c *changes) counts(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00"))
		names, known := c.names[wd]
		if mask&unix.IN_Q_OVERFLOW != 0 || known && mask&changed != 0 && (names == nil || slices.Contains(names, name)) {
			return true
		}
		events = events[end:]
	}
	return false
}

// onChanges has the server replaced once its files have settled.
func (f *front) onChanges(now time.Time) {
	if f.restart.changes.settleAt.IsZero() || now.Before(f.restart.changes.settleAt) {
		return
	}
	f.restart.changes.settleAt = time.Time{}
	f.log.Info().Msg("a file has changed: the server is to be started again (--restart-on)")
	f.wantRestart(share.RestartGrace)
}
