package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Listen makes the socket, and replaces one that was left. Only the holder of the lock may call it.
func (p Place) Listen() (fd int, err error) {
	if err := p.Withdraw(); err != nil {
		return -1, err
	}
	if fd, err = packetSocket(); err != nil {
		return -1, err
	}
	if err = unix.Fchmod(fd, 0o600); err == nil {
		err = p.dir.at.Bind(fd, file(p.name, socketSuffix))
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("listen in %s: %w", p.dir.Name, err)
	}
	return fd, nil
}

// ErrNoHost says that no host listens in a place.
var ErrNoHost = errors.New("no host listens")

// Connect connects to the host.
func (p Place) Connect() (fd int, err error) {
	if fd, err = packetSocket(); err != nil {
		return -1, err
	}
	switch err = p.dir.at.Connect(fd, file(p.name, socketSuffix)); {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		err = ErrNoHost
	}
	unix.Close(fd)
	return -1, fmt.Errorf("connect to the host in %s: %w", p.dir.Name, err)
}

// packetSocket makes a socket that keeps messages apart and does not block.
func packetSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("make socket: %w", err)
	}
	return fd, nil
}

// Place is where a shared server keeps its files. They are a lock, the socket that attaching sessions connect to, and a
// list of these sessions for ps. The host holds the lock for as long as it lives. The process that holds the lock may
// start a host.
type Place struct {
	dir *Directory
	// name begins the names of the files.
	name string
}

// placePrefix begins the names of all places, so that none is taken for a session's id.
const placePrefix = "share-"

// Place is the place of the shared server with this key. The directory must stay open.
func (d *Directory) Place(key string) Place { return Place{d, placePrefix + key} }

// Lock takes the lock, or makes it. The error is ErrHeld while another process has it.
func (p Place) Lock() (*Lease, error) { return p.dir.TakeLock(p.name) }

// Adopt is the lock of a place whose descriptor the process was started with.
func (p Place) Adopt(fd int) *Lease { return &Lease{p.dir, p.name, fd} }

// FD is the descriptor of the lock.
func (l *Lease) FD() int { return l.fd }

// Withdraw removes the socket: no session finds the host any more.
func (p Place) Withdraw() error { return p.dir.unlinkSocket(p.name) }

// Sharing is what ps shows of a shared server.
type Sharing struct {
	// Host is the process that the server belongs to, Gateway the gateway that it ends with; zero with --share-scope=user.
	Host    proc.ID `json:"host"`
	Gateway proc.ID `json:"gateway"`
	// Parts are short hashes of what its sessions have in common, by name.
	Parts map[string]string `json:"parts,omitempty"`
	// Sessions are the processes that are attached, as gateways have started them.
	Sessions []Attached `json:"sessions"`
}

// Attached is a session that is attached to a shared server.
type Attached struct {
	proc.ID
	// Gateway started it.
	Gateway proc.ID `json:"gateway"`
}

// Tell replaces what ps shows.
func (p Place) Tell(s Sharing) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode %s: %w", p.name, err)
	}
	return p.dir.at.Replace(file(p.name, recordSuffix), file(p.name, nextSuffix), b)
}

// Sharing is what Tell has written. The host's user may have written anything.
func (p Place) Sharing() (s Sharing, err error) {
	b, err := p.dir.at.ReadRegular(file(p.name, recordSuffix), proc.MaxSharing)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// removeDeadPlaces removes what killed hosts have left.
func (d *Directory) removeDeadPlaces() error {
	keys, err := d.oldPlaces()
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		lock, err := d.TakeLock(key)
		switch {
		case errors.Is(err, ErrHeld), errors.Is(err, unix.ENOENT):
		case err != nil:
			errs = append(errs, err)
		default:
			errs = append(errs, lock.Remove())
		}
	}
	return errors.Join(errs...)
}

// hasDeadPlaces reports whether removeDeadPlaces would find anything.
func (d *Directory) hasDeadPlaces() bool {
	keys, _ := d.oldPlaces()
	return slices.ContainsFunc(keys, func(key string) bool {
		held, err := d.held(file(key, lockSuffix))
		return err == nil && !held
	})
}

// oldPlaces lists the places that have been there for some time. The host of a young one may be about to begin.
func (d *Directory) oldPlaces() (keys []string, err error) {
	names, err := d.at.Names()
	for _, name := range names {
		key, ok := strings.CutSuffix(name, string(lockSuffix))
		if ok && strings.HasPrefix(key, placePrefix) && d.isOld(name) {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// keyFile holds the user's secret, with which the names of places are made.
const keyFile = "share.key"

// Secret is a random number of this user, made when first asked for. Without it the name of a place says nothing about the
// environment that it stands for.
func (d *Directory) Secret() (k [16]byte, err error) {
	for range secretTries {
		b, err := d.at.ReadRegular(keyFile, int64(len(k)))
		switch {
		case err == nil && len(b) == len(k):
			return [16]byte(b), nil
		case err == nil:
			return k, fmt.Errorf("%s/%s is damaged: remove it", d.Name, keyFile)
		case !errors.Is(err, unix.ENOENT):
			return k, err
		}
		if err := d.makeSecret(); err != nil && !errors.Is(err, unix.EEXIST) {
			return k, err
		}
	}
	return k, fmt.Errorf("make %s/%s: it vanishes", d.Name, keyFile)
}

const secretTries = 3

// makeSecret writes the secret to a file that gets its name once it is whole: half of it is never seen, and of two that are made
// at once the first one stays.
func (d *Directory) makeSecret() error {
	var k [16]byte
	random(k[:])
	next := keyFile + "." + NewID()
	if err := d.at.Replace(next, next+".tmp", k[:]); err != nil {
		return err
	}
	err := d.at.Link(next, keyFile)
	return errors.Join(err, d.at.Unlink(next))
}
