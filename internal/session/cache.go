package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
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

// Cached is an entry of a cache: its name and size, and when it was written.
type Cached struct {
	Name  string
	Bytes int64
	At    time.Time
}

// OpenCache opens the directory of what sessions keep for later ones, and makes it when needed: mcp-tether in
// $XDG_CACHE_HOME, else in .cache of the home directory. Both must be the user's own (sudo may keep the home of another),
// and the directory closed to all others.
func OpenCache(uid int, xdgCache, home string) (*Directory, error) {
	return openBelow(uid, xdgCache, home, ".cache")
}

// openBelow opens the user's directory in the parent that a variable names, else below the home directory.
func openBelow(uid int, parent, home string, below ...string) (*Directory, error) {
	if !filepath.IsAbs(parent) {
		if !filepath.IsAbs(home) {
			return nil, errNoHome
		}
		if parent = home; !belongsTo(home, uid) {
			return nil, fmt.Errorf("home directory %s is not there, or not of uid %d", home, uid)
		}
		for _, name := range below {
			parent = filepath.Join(parent, name)
			if err := unix.Mkdir(parent, 0o700); err != nil && err != unix.EEXIST {
				return nil, fmt.Errorf("create directory %s: %w", parent, err)
			}
		}
	}
	// What such a variable names is made when it is missing (XDG Base Directory Specification), but not among what is another's.
	if !belongsTo(parent, uid) && belongsTo(filepath.Dir(parent), uid) {
		_ = unix.Mkdir(parent, 0o700)
	}
	if !belongsTo(parent, uid) {
		return nil, fmt.Errorf("directory %s is not there, or not of uid %d", parent, uid)
	}
	return openPrivate(dirIn(parent), uid)
}

// errNoHome says that nothing tells where a user's files are.
var errNoHome = errors.New("HOME is not an absolute path, nor is XDG_CACHE_HOME or XDG_STATE_HOME")

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

// Cached lists the entries, the latest first.
func (d *Directory) Cached() ([]Cached, error) {
	names, err := d.at.Names()
	if err != nil {
		return nil, err
	}
	var all []Cached
	for _, n := range names {
		var st unix.Stat_t
		name, ok := strings.CutSuffix(n, string(recordSuffix))
		if ok && d.at.Look(n, &st) == nil {
			all = append(all, Cached{name, st.Size, proc.Modified(&st)})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].At.After(all[j].At) })
	return all, nil
}

// shrinkCache removes the oldest entries of a cache that is too large, and what killed writers have left.
func (d *Directory) shrinkCache() error {
	all, err := d.Cached()
	if err != nil {
		return err
	}
	bytes := int64(0)
	for i, c := range all {
		if bytes += c.Bytes; i >= maxCached || bytes > maxCachedBytes {
			err = errors.Join(err, d.RemoveCached(c.Name))
		}
	}
	names, _ := d.at.Names()
	for _, n := range names {
		if strings.HasSuffix(n, string(nextSuffix)) && d.isOld(n) {
			_ = d.at.Unlink(n)
		}
	}
	return err
}
