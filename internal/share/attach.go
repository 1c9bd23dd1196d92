package share

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/mcp"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
)

// Attach is the process that a gateway starts with run --share: it attaches its streams to a shared server, and returns the
// exit code. args is its command line. The error is a *CannotError where the session can have a server of its own instead:
// nothing has been done then. Call it on the locked main thread.
func Attach(args []string) (int, error) {
	a := &attachment{args: args, words: args[2:], inherited: proc.ReadAtExec(), conn: -1, slot: 1}
	if err := a.prepare(); err != nil {
		closeAll(append(a.owners, a.notes, a.outlet[0], a.outlet[1]))
		return exitFailure, err
	}
	if err := a.catch(); err != nil {
		return exitFailure, err
	}
	for {
		switch err := a.find(); {
		case err != nil:
			return a.ended(err)
		case a.conn < 0:
			return a.code, nil
		}
		v, err := a.await()
		if err != nil {
			return a.ended(err)
		}
		switch v.Next {
		case nextFull:
			a.slot++
			continue
		case nextAlone:
			a.slot, a.alone = 1, v.Why
			a.key += "-" + session.NewID()
			continue
		}
		if v.Why != "" {
			return v.Code, errors.New(v.Why)
		}
		return v.Code, nil
	}
}

const (
	// exitFailure is the exit code of a failure of mcp-tether itself.
	exitFailure = 125
	// hostRetryPause is how long to wait for a host that begins or ends before looking again.
	hostRetryPause = 5 * time.Millisecond
	// maxSlots bounds the hosts of one key.
	maxSlots = 1000
)

// attachment is what an attached process knows.
type attachment struct {
	args, words []string
	inherited   proc.AtExec
	reader      proc.Reader
	signals     int
	// owners are the pidfds of the parent and of the gateway behind it.
	owners        []int
	parent        int
	self, gateway proc.ID
	scope         proc.ID // the gateway that is part of the key
	dir           *session.Directory
	key, alone    string
	slot          int
	notes         int
	outlet        [2]int
	conn          int
	code          int
	caught        []proc.Caught
	checksParent  bool
	lastTry       time.Time // when a host was last reached or started
	failures      int
}

// Why an attached process ends without a word from its host.
var errOwnerGone = errors.New("the gateway is gone")

type signalError syscall.Signal

func (e signalError) Error() string { return "ended by " + unix.SignalName(syscall.Signal(e)) }

// ended gives the exit code for the reason why the process ends.
func (a *attachment) ended(err error) (int, error) {
	var sig signalError
	switch {
	case errors.As(err, &sig):
		a.wakeHost()
		return 128 + int(sig), nil
	case errors.Is(err, errOwnerGone), errors.Is(err, errEnd):
		a.wakeHost()
		return 0, nil
	}
	return exitFailure, err
}

// wakeHost continues a host that was stopped: it would not see that a session, or its gateway, is gone. The kernel
// closes a dying gateway's pipes before its pidfd reports the death, so every end wakes the host.
func (a *attachment) wakeHost() {
	// No check whether the host is stopped: a signal that stops it may be on its way.
	if s, err := a.place().Sharing(); err == nil {
		_ = a.reader.Signal(s.Host, unix.SIGCONT)
	}
}

// prepare makes what Attach needs. No session can follow where the gateway is gone or the scope is a mistake. Every other
// error is a *CannotError.
func (a *attachment) prepare() error {
	a.notes, a.outlet = -1, [2]int{-1, -1}
	scope := argv.ShareScope(a.words, os.Getenv(argv.EnvScope))
	switch scope {
	case "", argv.ScopeGateway, argv.ScopeUser:
	default:
		return fmt.Errorf("--share-scope %s is none of gateway, user", scope)
	}
	a.parent = os.Getppid()
	err := a.collect(scope)
	if os.Getppid() != a.parent {
		return fmt.Errorf("gateway (pid %d) ended while its session started: nothing was started", a.parent)
	}
	if err != nil {
		return &CannotError{err}
	}
	return nil
}

// collect gathers what the key and the session need.
func (a *attachment) collect(scope string) error {
	if err := a.watch(); err != nil {
		return err
	}
	i, err := a.identity(scope)
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && limit.Cur < uint64(notesSize(mcp.DefaultMax)) {
		return fmt.Errorf("files are limited to %d bytes (ulimit -f), also in memory", limit.Cur)
	}
	if a.dir, err = session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR")); err != nil {
		return err
	}
	secret, err := a.dir.Secret()
	if err != nil {
		return err
	}
	a.key = i.key(secret)
	if a.notes, err = makeNotes(); err != nil {
		return err
	}
	if err := unix.Pipe2(a.outlet[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	return nil
}

// watch opens the pidfds of the owners: the processes whose end is also the session's. The parent cannot be seen if it is
// outside of our pid namespace (docker exec), or hidden (hidepid).
func (a *attachment) watch() error {
	a.addOwner(a.parent)
	st, err := a.reader.Stat(a.parent)
	if err != nil {
		return fmt.Errorf("see the process that started it (pid %d): %w", a.parent, err)
	}
	a.gateway = st.ID
	if g := proc.Gateway(a.parent, proc.ProgramName(), a.reader.Stat, a.reader.Args); g.PID != 0 && g.ID != a.gateway {
		a.gateway = g.ID
		a.addOwner(g.PID)
	}
	if st, err = a.reader.Stat(os.Getpid()); err != nil {
		return err
	}
	a.self = st.ID
	return nil
}

// catch catches signals. Only those that end the session matter.
func (a *attachment) catch() (err error) {
	a.signals, err = proc.Listen(a.inherited, proc.JobControl)
	return err
}

func (a *attachment) addOwner(pid int) {
	if fd, err := proc.OpenPidfd(pid); err == nil {
		a.owners = append(a.owners, fd)
		return
	}
	a.checksParent = true
}

// identity is what the key of this session is made of.
func (a *attachment) identity(scope string) (identity, error) {
	i := identity{words: a.words, uid: os.Getuid(), env: proc.Environ()}
	if scope != argv.ScopeUser {
		i.gateway = a.gateway
	}
	a.scope = i.gateway
	var err error
	if i.directory, err = os.Getwd(); err != nil {
		return i, fmt.Errorf("find the working directory: %w", err)
	}
	var st unix.Stat_t
	if err = unix.Fstatat(unix.AT_FDCWD, ".", &st, 0); err != nil {
		return i, fmt.Errorf("look at the working directory: %w", err)
	}
	i.device, i.inode = st.Dev, st.Ino
	i.host, err = a.reader.ReadHost()
	return i, err
}

// place is where the host of the slot is.
func (a *attachment) place() session.Place {
	if a.slot == 1 {
		return a.dir.Place(a.key)
	}
	return a.dir.Place(fmt.Sprintf("%s-%d", a.key, a.slot))
}

// find connects to the host of the key, which it starts where there is none, and hands the streams over. If the start
// fails, conn is -1 and code is the exit code.
func (a *attachment) find() error {
	if a.slot > maxSlots {
		return fmt.Errorf("%d servers of this kind are full", maxSlots)
	}
	for again := true; ; {
		fd, err := a.place().Connect()
		switch {
		case err == nil:
			a.conn, a.lastTry = fd, time.Now()
			return a.greet()
		case errors.Is(err, unix.EAGAIN): // The listener's backlog is full.
		case !errors.Is(err, session.ErrNoHost):
			return err
		default:
			started, err := a.tryStart()
			if err != nil || a.code != 0 {
				return err
			}
			if started && again {
				again = false // if it is killed each time, signals and the gateway's end must be seen in between
				continue
			}
			if started { // The last one has ended before it could be reached.
				a.lastTry = time.Now()
				if err := a.slowDown(); err != nil {
					return err
				}
			}
		}
		if err := a.wait(hostRetryPause, -1); err != nil {
			return err
		}
	}
}

// mostStarts bounds the hosts that end at once before any has served this session. Trying that many takes some seconds.
const mostStarts = 8

// served reports whether a host has used the notes.
func (a *attachment) served() bool {
	var st unix.Stat_t
	return unix.Fstat(a.notes, &st) != nil || st.Size > 0
}

// quickEnd is the longest life of a host that counts as a quick end.
const quickEnd = 100 * time.Millisecond

// slowDown waits before the session goes to one more host if several have ended quickly: something ends them.
func (a *attachment) slowDown() error {
	now := time.Now()
	if now.Sub(a.lastTry) > quickEnd {
		a.failures = 0
	}
	switch a.failures++; {
	case a.failures < 4:
		return nil
	case a.failures > mostStarts && !a.served():
		return fmt.Errorf("%d hosts of a shared server in a row have ended at once: start the server without --share", a.failures)
	}
	for until := now.Add(quickEnd << min(a.failures-4, 4)); time.Now().Before(until); {
		if err := a.wait(time.Until(until), -1); err != nil {
			return err
		}
	}
	return nil
}

// greet hands the streams over.
func (a *attachment) greet() error {
	err := samePeer(a.conn)
	if err == nil {
		err = send(a.conn, hello{a.self, a.gateway}, 0, 1, a.stderr(), a.notes, a.outlet[0], a.outlet[1])
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ENOTCONN) {
		return nil // The host has just gone: await will see that.
	}
	return err
}

// stderr is the descriptor to hand over as standard error. Where that is closed, the notes take its place.
func (a *attachment) stderr() int {
	if _, err := unix.FcntlInt(2, unix.F_GETFD, 0); err == nil {
		return 2
	}
	return a.notes
}

// tryStart starts a host if no other process is about to, and none is ending. code is the exit code of a start that failed.
func (a *attachment) tryStart() (started bool, err error) {
	place := a.place()
	lock, err := place.Lock()
	if errors.Is(err, session.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	listener, err := place.Listen()
	if err == nil {
		err = a.launch(lock.FD(), listener)
		_ = unix.Close(listener)
	}
	if err != nil || a.code != 0 {
		return false, errors.Join(err, place.Withdraw(), lock.Remove())
	}
	// If the launching process was killed, it may have started the host before. If not, the lock is free now.
	lock.Release()
	return true, nil
}

// launch starts a host by way of a process that ends at once. So the host is no child of ours, and ending this
// process's tree does not end the host.
func (a *attachment) launch(lock, listener int) error {
	h := argv.Host{Key: a.placeKey(), Lock: lock, Listener: listener, Gateway: a.scope, GatewayFD: -1, Alone: oneLine(a.alone), Launches: true}
	if !a.scope.Zero() && len(a.owners) > 0 {
		h.GatewayFD = a.owners[len(a.owners)-1]
	}
	for _, fd := range []int{lock, listener, h.GatewayFD} {
		if fd >= 0 {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
			defer unix.CloseOnExec(fd)
		}
	}
	pid, err := proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.HostArgs(a.args[0], h, a.words), Env: proc.WithOneProcessor(proc.Environ()),
		CgroupFD: -1, CgroupProcs: -1, Inherited: a.inherited,
	})
	if err != nil {
		return fmt.Errorf("start the host from %s: %w", proc.SelfExe, err)
	}
	ws, err := proc.Wait(pid)
	if err != nil {
		return err
	}
	if !ws.Signaled() {
		a.code = ws.ExitStatus()
	}
	return nil
}

// oneLine makes a reason, which may name what a client has sent, fit for a command line.
func oneLine(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	return text[:min(len(text), most)]
}

func (a *attachment) placeKey() string {
	if a.slot == 1 {
		return a.key
	}
	return fmt.Sprintf("%s-%d", a.key, a.slot)
}

// await waits for the host's verdict. A host that ends without one was killed. Then the client gets what it is owed.
// When the client says something more, find looks for another host, from the same slot on.
func (a *attachment) await() (verdict, error) {
	for {
		var v verdict
		fds, err := receive(a.conn, &v)
		closeAll(fds)
		switch {
		case err == nil:
			a.hangUp()
			return v, nil
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			if err := a.wait(-1, a.conn); err != nil {
				return v, err
			}
			continue
		}
		a.hangUp()
		if err := a.recover(); err != nil {
			return v, err
		}
		if err := a.slowDown(); err != nil {
			return v, err
		}
		if err := a.find(); err != nil {
			return v, err
		}
		if a.conn < 0 {
			return verdict{Code: a.code}, nil
		}
	}
}

func (a *attachment) hangUp() {
	_ = unix.Close(a.conn)
	a.conn = -1
}

// wait waits once: for fd if it is not negative, for signals, for the ends of the owners, and for the client to stop reading.
// The error says that the session ends.
func (a *attachment) wait(timeout time.Duration, fd int) error {
	return a.poll(timeout, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
}

func (a *attachment) poll(timeout time.Duration, more ...unix.PollFd) error {
	fds := []unix.PollFd{{Fd: int32(a.signals), Events: unix.POLLIN}, {Fd: 1}}
	for _, fd := range a.owners {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	fds = append(fds, more...)
	if a.checksParent && (timeout < 0 || timeout > proc.LookPause) {
		timeout = proc.LookPause
	}
	proc.Poll(fds, timeout)
	a.caught = proc.ReadCaught(a.signals, a.caught[:0])
	for _, c := range a.caught {
		switch c.Signal {
		case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
			return signalError(c.Signal)
		}
	}
	for _, fd := range fds[2 : 2+len(a.owners)] {
		if fd.Revents != 0 {
			return errOwnerGone
		}
	}
	if os.Getppid() != a.parent {
		return errOwnerGone
	}
	if fds[1].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
		return errEnd
	}
	return nil
}

// recover gives the client what it is owed after its host was killed. That is the rest of the output that was on its
// way, and errors for the calls that are open. Then it waits for the client to say something more.
func (a *attachment) recover() error {
	whole, err := a.settle()
	if err != nil || whole {
		return err
	}
	for {
		look := []unix.PollFd{{Fd: 0, Events: unix.POLLIN}}
		switch n := proc.Poll(look, 0); {
		case n == 0:
		case look[0].Revents&unix.POLLIN == 0, tellsWaiting(0) && waiting(0) == 0:
			return errEnd
		default:
			return nil
		}
		if err := a.wait(-1, 0); err != nil {
			return err
		}
	}
}

// settle is the part of recover before the wait. more says that the client has said something already.
func (a *attachment) settle() (more bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(a.notes, &st); err != nil || st.Size == 0 {
		return true, err // No host has used the notes.
	}
	mem, err := unix.Mmap(a.notes, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return false, fmt.Errorf("map the notes: %w", err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	n, err := openNotes(mem)
	if err != nil {
		return false, err
	}
	broken, err := n.settle(waiting(a.outlet[0]))
	if err != nil {
		return false, err
	}
	var owed []byte
	buf := make([]byte, 64<<10)
	for {
		count, err := unix.Read(a.outlet[0], buf)
		if count <= 0 || err != nil {
			break
		}
		owed = append(owed, buf[:count]...)
	}
	if broken {
		owed = append(owed, '\n')
	}
	for id, count := range n.open {
		for range count {
			owed = append(owed, mcp.ErrorReply(id, hostKilled)...)
		}
	}
	if err := a.write(owed); err != nil {
		return false, err
	}
	n.answered()
	for _, b := range n.unread() {
		if b == '\n' {
			return true, nil
		}
	}
	return false, nil
}

const hostKilled = "the process that shares this server was killed: whether the call has had an effect is not known"

// write writes to the client, and ends when the session does.
func (a *attachment) write(b []byte) error {
	out := relay.WriteEnd(1)
	defer out.Close()
	for len(b) > 0 {
		n, end := out.Write(b)
		if end {
			return errEnd
		}
		if b = b[n:]; n == 0 {
			if err := a.poll(-1, unix.PollFd{Fd: 1, Events: unix.POLLOUT}); err != nil {
				return err
			}
		}
	}
	return nil
}

// tellsWaiting reports whether a descriptor shows how much can be read.
func tellsWaiting(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	kind := st.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFSOCK
}
