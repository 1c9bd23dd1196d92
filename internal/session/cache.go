package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Bounds of a cache: entries, bytes of one, and bytes of all. The oldest entries go first.
const (
	maxCached      = 256
	maxCachedEntry = 2 << 20
	maxCachedBytes = 32 << 20
)

// cached is an entry of a cache, and when it was written.
type cached struct {
	name  string
	bytes int64
	at    time.Time
}

// OpenCache opens the directory of what sessions keep for later ones, and makes it when needed: mcp-tether in
// $XDG_CACHE_HOME, else in .cache of the home directory. Both must be the user's own (sudo may keep the home of another),
// and the directory closed to all others.
func OpenCache(uid int, xdgCache, home string) (*Directory, error) {
	return openBelow(uid, xdgCache, home, ".cache")
}

// ReadCached reads an entry; the error is ENOENT where there is none.
func (d *Directory) ReadCached(name string) ([]byte, error) {
	return d.at.ReadRegular(file(name, recordSuffix), maxCachedEntry)
}

// WriteCached writes an entry, or replaces it in one step. Others go when there are too many. On a full disk the previous
// entry stays.
func (d *Directory) WriteCached(name string, text []byte) error {
	if len(text) > maxCachedEntry {
		return fmt.Errorf("write %s/%s: more than %d bytes", d.Name, name, maxCachedEntry)
	}
	next := file(name+"."+NewID(), nextSuffix) // Two sessions may write at once.
	if err := d.at.Replace(file(name, recordSuffix), next, text); err != nil {
		return err
	}
	return d.shrinkCache()
}

// RemoveCached removes an entry. One that is gone is no error.
func (d *Directory) RemoveCached(name string) error { return d.at.Unlink(file(name, recordSuffix)) }

// shrinkCache removes the oldest entries of a cache that is too large, and what killed writers have left.
func (d *Directory) shrinkCache() error {
	names, err := d.at.Names()
	var all []cached
	for _, n := range names {
		var st unix.Stat_t
		switch name, is := strings.CutSuffix(n, string(recordSuffix)); {
		case is && d.at.Look(n, &st) == nil:
			all = append(all, cached{name, st.Size, proc.Modified(&st)})
		case strings.HasSuffix(n, string(nextSuffix)) && d.isOld(n):
			_ = d.at.Unlink(n)
		}
	}
	slices.SortStableFunc(all, func(a, b cached) int { return b.at.Compare(a.at) })
	bytes := int64(0)
	for i, c := range all {
		if bytes += c.bytes; i >= maxCached || bytes > maxCachedBytes {
			err = errors.Join(err, d.RemoveCached(c.name))
		}
	}
	return err
}
