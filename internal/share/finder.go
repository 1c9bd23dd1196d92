package share

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// maxSlots bounds the hosts of one key.
const maxSlots = 1000

// Finder finds the host of a shared server for the front of one session, and starts it where there is none.
type Finder struct {
	args, words   []string
	reader        proc.Reader
	self, gateway proc.ID
	owners        []proc.Owner
	// owner is the gateway that is part of the key, without an ID if none is.
	owner proc.Owner
	// dir is the directory of the records, and scope the value of --share-scope.
	dir   *session.Directory
	scope string
	keyed
	// slot counts the hosts of a key from 1 on.
	slot int
	conn int // -1 while there is none
}

// keyed is what the key of a session is made of.
type keyed struct {
	// parts are those of the key, begun that of the handshake, which the first line tells. secret is what they are hashed with.
	parts  []part
	begun  *part
	secret [16]byte
	// key is that of all sessions which may share a server, and digests are those of its parts.
	key     string
	digests map[string]string
}

// NewFinder makes the finder for a session. args is its command line. The error is ErrCannot where the session can have a
// server of its own instead: nothing has been done then.
func NewFinder(args []string) (*Finder, error) {
	f := &Finder{args: args, words: args[2:], conn: -1, slot: 1}
	f.scope = argv.ShareScope(f.words, os.Getenv(argv.EnvScope))
	switch f.scope {
	case "", argv.ScopeGateway, argv.ScopeUser:
	default:
		return nil, fmt.Errorf("--share-scope %s is none of gateway, user", f.scope)
	}
	err := f.watch()
	if err == nil {
		err = f.open()
	}
	if errors.Is(err, proc.ErrGone) {
		return nil, errors.New("gateway ended while its session started: nothing was started")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannot, err)
	}
	return f, nil
}

// open opens the directory of the records, with whose secret the key is made.
func (f *Finder) open() error {
	parts, err := f.identity()
	if err != nil {
		return err
	}
	dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return err
	}
	secret, err := dir.Secret()
	if err != nil {
		dir.Close()
		return err
	}
	if f.dir != nil {
		f.dir.Close()
	}
	f.dir, f.secret, f.parts = dir, secret, parts
	f.makeKey()
	return nil
}

// Meet takes the first line of the client, before the first search: clients that begin otherwise have another server.
func (f *Finder) Meet(first []byte) {
	if f.begun == nil {
		begun := handshake(first)
		f.begun = &begun
		f.makeKey()
	}
}

func (f *Finder) makeKey() {
	parts := f.parts
	if f.begun != nil {
		parts = append(parts[:len(parts):len(parts)], *f.begun)
	}
	f.key, f.digests = key(f.secret, parts), digests(f.secret, parts)
}

// watch finds the gateway. The parent cannot be seen if it is outside of our pid namespace (docker exec), or hidden (hidepid).
func (f *Finder) watch() error {
	owners, err := f.reader.WatchOwners()
	if err != nil {
		return err
	}
	if owners[0].Start == 0 {
		return fmt.Errorf("see the process that started it (pid %d): it is hidden, or in another pid namespace", owners[0].PID)
	}
	f.owners, f.owner = owners, owners[len(owners)-1]
	f.gateway = f.owner.ID
	pid, _ := proc.Spawned()
	if st, err := f.reader.Stat(pid); err == nil {
		f.self = st.ID
	}
	return nil
}

// Owners are the parent and, if that is a launcher, the gateway behind it.
func (f *Finder) Owners() []proc.Owner { return f.owners }

func (f *Finder) placeKey() string {
	if f.slot > 1 {
		return fmt.Sprintf("%s-%d", f.key, f.slot)
	}
	return f.key
}

func (f *Finder) place() session.Place { return f.dir.Place(f.placeKey()) }

// RetryPause is how long to wait before Find looks again for a host that begins or ends.
const RetryPause = 5 * time.Millisecond

// Find connects to the host of the key, which it starts where there is none. again says that one is about to begin or end,
// so that the caller must try again after RetryPause.
func (f *Finder) Find() (again bool, err error) {
	if f.slot > maxSlots {
		return false, fmt.Errorf("%d servers of this kind are full", maxSlots)
	}
	for range 2 {
		fd, err := f.place().Connect()
		switch {
		case err == nil:
			f.conn = fd
			return false, nil
		case errors.Is(err, unix.EAGAIN): // The listener's backlog is full.
			return true, nil
		case !errors.Is(err, session.ErrNoHost):
			return false, err
		}
		if started, err := f.tryStart(); err != nil || !started {
			return true, err
		}
	}
	return true, nil
}

// Hello hands streams over to the host. in and out are those that its server has in place of standard input and output.
func (f *Finder) Hello(in, out int) error {
	err := samePeer(f.conn)
	if err == nil {
		err = send(f.conn, hello{f.self, f.gateway, f.digests}, in, out, 2)
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ENOTCONN) {
		return nil // The host has just gone: Hear will tell.
	}
	return err
}

// Conn is the connection to the host, to be polled for input; -1 while there is none.
func (f *Finder) Conn() int { return f.conn }

// Receive reads what the host says. ok is false while it says nothing. After all but Here there is no connection any more.
func (f *Finder) Receive() (v Verdict, ok bool) {
	fds, err := receive(f.conn, &v)
	defer closeAll(fds)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return v, false
	}
	slot := f.slot
	switch {
	case err != nil:
		v = Verdict{Next: Lost}
	case v.Next == Here:
		return v, true
	}
	f.HangUp()
	if v.Next == Full {
		f.slot = slot + 1
	}
	return v, true
}

// Sleep leaves the host, and tells it that the session falls asleep.
func (f *Finder) Sleep() {
	_ = send(f.conn, farewell{Asleep: true})
	f.HangUp()
}

// HangUp ends the connection. The next search begins at the first slot.
func (f *Finder) HangUp() {
	f.slot = 1
	if f.conn >= 0 {
		_ = unix.Close(f.conn)
		f.conn = -1
	}
}

// Host is the process of the host that has the session's place, as it says itself; zero where it cannot be told.
func (f *Finder) Host() proc.ID {
	s, err := f.place().Sharing()
	if err != nil {
		return proc.ID{}
	}
	return s.Host
}
