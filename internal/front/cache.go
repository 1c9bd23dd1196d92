package front

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/session"
)

// cacheEntry is an entry of the user's cache: what a server publishes, and its command line without what looks like a secret.
// The name of the entry is a hash of all that the server may depend on.
type cacheEntry struct {
	Version int      `json:"version"`
	Args    []string `json:"args"`
	mux.Published
}

// entryVersion is the version of an entry. It is part of the name as well.
const entryVersion = 2

// parseEntry reads an entry. The error says that it is none that we have written: a line of JSON.
func parseEntry(text []byte) (k cacheEntry, err error) {
	if err = json.Unmarshal(text, &k); err != nil {
		return k, err
	}
	if k.Version != entryVersion || len(k.Answers) == 0 || bytes.IndexByte(text, '\n') != len(text)-1 {
		return k, errors.New("not an entry of this version")
	}
	return k, nil
}

// cache is what earlier sessions have left about one server, in the user's cache.
type cache struct {
	command []string
	log     zerolog.Logger
	// first is the identity of the server when it was first asked about; "" if that could not be found.
	first string
	asked bool
}

// load gives what is known of the server that answers an initialize, which is empty without a handshake.
func (k *cache) load(initialize []byte) (nothing mux.Published) {
	id, found := identity(k.command)
	if !k.asked {
		k.first, k.asked = id, true
	}
	if !found {
		k.log.Debug().Msg("the server is started: it is not known what its command starts")
		return nothing
	}
	dir, name, err := openEntry(id, initialize)
	if err != nil {
		k.log.Warn().Err(err).Msg("without a cache the server is started: --lazy has no effect")
		return nothing
	}
	defer dir.Close()
	text, err := dir.ReadCached(name)
	if errors.Is(err, unix.ENOENT) {
		return nothing
	}
	var e cacheEntry
	if err == nil {
		e, err = parseEntry(text)
	}
	if err != nil {
		k.log.Warn().Err(err).Msg("what was left about the server is not used")
		return nothing
	}
	return e.Published
}

// save adds what the server has published, and removes the entry if news is nil. It is left out if the server's files have changed
// since it was started.
func (k *cache) save(initialize []byte, news *mux.Published) {
	id, found := identity(k.command)
	if !found || k.first != "" && id != k.first {
		return
	}
	dir, name, err := openEntry(id, initialize)
	if err == nil {
		defer dir.Close()
		if err = k.replace(dir, name, news); err == nil {
			return
		}
	}
	k.log.Warn().Err(err).Msg("what the server publishes is not kept")
}

func (k *cache) replace(dir *session.Directory, name string, news *mux.Published) error {
	if news == nil {
		return dir.RemoveCached(name)
	}
	var e cacheEntry
	if text, err := dir.ReadCached(name); err == nil {
		e, err = parseEntry(text)
		if err != nil {
			e = cacheEntry{}
		}
	}
	e.Version, e.Args = entryVersion, session.Redact(k.command)
	switch changed := e.Add(*news); {
	case !changed:
		return nil
	case len(e.Answers) == 0:
		return dir.RemoveCached(name)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode what the server publishes: %w", err)
	}
	return dir.WriteCached(name, append(text, '\n'))
}

// openEntry is the directory of the cache, and the name of an entry in it. That tells nothing to who has not the user's secret.
func openEntry(id string, initialize []byte) (*session.Directory, string, error) {
	dir, err := session.OpenCache(os.Getuid(), os.Getenv("XDG_CACHE_HOME"), os.Getenv("HOME"))
	if err != nil {
		return nil, "", err
	}
	secret, err := dir.Secret()
	if err != nil {
		dir.Close()
		return nil, "", err
	}
	sum := session.KeyedHash(secret, fmt.Appendf(nil, "%d %d %s%s", entryVersion, len(id), id, mcp.ValueAt(initialize, "params")))
	return dir, hex.EncodeToString(sum[:]), nil
}
