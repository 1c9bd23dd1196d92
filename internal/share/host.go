package share

import (
	"errors"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// hostName is the command name of a host. No launcher has that name, so the host is the gateway of its server's
// session.
const hostName = "mcp-tether-host"

// host is a shared server's process. It does one thing at a time, in one loop.
type host struct {
	o      Options
	reader proc.Reader
	self   proc.ID
	place  session.Place
	lock   *session.Lease // nil once the next host may begin
	polled
	joined
	server server
	due
	hostEnd
}

// polled is what is waited for.
type polled struct {
	signals           *proc.Signals
	listener, gateway int
	caught            []unix.Signal
	// fds are what is waited for. From fromClients on they are of clients, the same one of ofClients each.
	fds       []unix.PollFd
	ofClients []ofClient
}

// ofClient is one descriptor of a client.
type ofClient struct {
	*client
	what int
}

// What is waited for of a client.
const (
	clientIn = iota
	clientOut
	clientConn
)

// joined are the clients, and what waits for them.
type joined struct {
	mux     *mux.Mux
	clients map[mux.Client]*client
	lastID  mux.Client
	// attached counts the clients that have said hello, most is how many there may be.
	attached, most int
	// longest bounds a message, in bytes, and queued is how many bytes wait for clients.
	longest, queued int64
	// parts are those of their key, by their hashes.
	parts map[string]string
	// unlisted says that the directory of the records was removed, so no session finds the host any more.
	unlisted bool
}

// due is when something is due without any input. Zero means never.
type due struct {
	// throttledUntil is until when the server is held back because too much waits for clients; zero if it is not.
	throttledUntil time.Time
	// leftAt is when the last client left that did not fall asleep: that one was idle for long enough. lingerAt is when the server
	// has been without one for long enough. listAt is when the list for ps is to be written, freeAt when to give back the memory
	// of long messages.
	leftAt, lingerAt, listAt, freeAt time.Time
	// restartBy is when the server ends, if calls are still open then, because another one is wanted.
	restartBy time.Time
	// endBy is when the host stops waiting for its server.
	endBy time.Time
}

const (
	// firstWait is how long the first client may take to come. One that takes longer starts another host.
	firstWait = 3 * time.Second
	// listPause bounds how often the list for ps is written.
	listPause = 50 * time.Millisecond
	// outputBudget is how many bytes may wait for clients, beside one message.
	outputBudget = 64 << 20
	// throttleTime bounds how long a client that does not read may hold up the others, each time outputBudget is exceeded.
	throttleTime = time.Second
	// acceptPause is how long the host waits where there is no descriptor for a connection, or no memory.
	acceptPause = 10 * time.Millisecond
	// reserveThreads is how many threads there are for waits and for the collector, beside those of every Go program.
	reserveThreads = 3
	// perClient is how many descriptors a client takes.
	perClient = streamCount + 1
)

// Serve is the host: it serves sessions until it is not needed any more. Call it on the locked main thread.
func Serve(o Options) error {
	for _, fd := range []int{o.Lock, o.Listener, o.GatewayFD} {
		if fd >= 0 {
			unix.CloseOnExec(fd)
		}
	}
	proc.CloseInherited()
	proc.SetComm(hostName)
	h := &host{
		o: o, polled: polled{listener: o.Listener, gateway: o.GatewayFD},
		joined: joined{mux: mux.New(), clients: map[mux.Client]*client{}, longest: mcp.DefaultMax},
	}
	h.server.reset()
	if err := h.prepare(); err != nil {
		return err
	}
	proc.StartThreads(reserveThreads)
	for !h.done {
		h.step()
	}
	h.release()
	return nil
}

func (h *host) prepare() error {
	dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return err
	}
	h.place = dir.Place(h.o.Key)
	h.lock = h.place.Adopt(h.o.Lock)
	st, err := h.reader.Stat(os.Getpid())
	if err != nil {
		return err
	}
	h.self = st.ID
	for _, sig := range []unix.Signal{unix.SIGPIPE, unix.SIGXFSZ, unix.SIGHUP} {
		if err := proc.Ignore(sig); err != nil {
			return err
		}
	}
	const signals proc.SignalSet = 1<<(unix.SIGTERM-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1) | 1<<(unix.SIGCHLD-1) |
		1<<(proc.Restart-1) | 1<<(proc.RestartNow-1)
	if h.signals, err = proc.Catch(signals); err != nil {
		return err
	}
	h.most = h.room()
	h.lingerAt = time.Now().Add(max(h.o.Linger, firstWait))
	h.writeList()
	return nil
}

func (h *host) room() int {
	var limit unix.Rlimit
	most := 100
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		most = int(min(limit.Cur, 1<<20)-32) / perClient
	}
	return max(most, 1)
}

// Where the descriptors are in what is polled.
const (
	fromSignals = iota
	fromListener
	fromGateway
	fromServer
	toServer
	fromErrors
	fromClients
)

func (h *host) step() {
	h.wait(h.timeout())
	h.act()
}

// wait waits until something has happened.
func (h *host) wait(timeout time.Duration) {
	poll := func(fd int, now bool) unix.PollFd {
		if !now {
			fd = -1
		}
		return unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	s := &h.server
	// What clients send does not hold the server back: it may have to be read from before it reads.
	mayRead := h.throttledUntil.IsZero() && s.replies <= pauseReading
	h.fds = append(h.fds[:0], poll(h.signals.FD(), true), poll(h.listener, !h.ending), poll(h.gateway, !h.ending),
		s.PollIn(mayRead), s.PollOut(), s.stderr.PollIn(true))
	h.ofClients = h.ofClients[:0]
	for _, c := range h.clients {
		for what, p := range [...]unix.PollFd{c.PollIn(h.mayRead(c)), c.PollOut(), poll(c.conn, true)} {
			if p.Fd >= 0 {
				h.fds, h.ofClients = append(h.fds, p), append(h.ofClients, ofClient{c, what})
			}
		}
	}
	proc.Poll(h.fds, timeout)
}

func (h *host) act() {
	ready := func(i int) bool { return h.fds[i].Revents != 0 }
	if ready(fromSignals) {
		h.onSignals()
	}
	if ready(fromListener) {
		h.accept()
	}
	if ready(fromGateway) {
		h.finish(Verdict{}, false)
	}
	if ready(fromServer) && !h.server.Ended {
		h.readServer()
	}
	if ready(fromErrors) {
		h.readStderr()
	}
	h.onClients()
	now := time.Now()
	h.onTime(now)
	h.pass(now)
}

func (h *host) onClients() {
	for i, of := range h.ofClients {
		c := of.client
		switch {
		case h.fds[fromClients+i].Revents == 0, h.clients[c.id] != c:
		case of.what == clientConn && !c.attached:
			h.takeHello(c)
		case of.what == clientConn:
			h.leave(c)
		case of.what == clientIn && h.mayRead(c):
			h.readClient(c)
		}
	}
}

// pass writes what can be written now, and lets those clients go that are done.
func (h *host) pass(now time.Time) {
	if h.server.pid == 0 && h.server.size > 0 && !h.ending {
		h.begin()
	}
	large := h.server.Large()
	h.queued = 0
	for _, c := range h.clients {
		if c.attached {
			h.serve(c)
			h.queued += int64(c.Waiting())
			large = large || c.Large()
		}
	}
	h.feed()
	h.throttle(now)
	if large && h.freeAt.IsZero() {
		h.freeAt = now.Add(freePause)
	}
}

// timeout is how long a wait may take; negative for ever.
func (h *host) timeout() time.Duration {
	wait := time.Duration(-1)
	if due := proc.Earliest(h.lingerAt, h.listAt, h.freeAt, h.endBy, h.throttledUntil, h.restartBy); !due.IsZero() {
		wait = max(time.Until(due), 0)
	}
	if h.gateway < 0 && !h.o.Gateway.Zero() {
		wait = proc.Shorter(wait, proc.LookPause)
	}
	return wait
}

func (h *host) onSignals() {
	h.caught = h.signals.Take(h.caught[:0])
	for _, sig := range h.caught {
		switch sig {
		case unix.SIGCHLD:
			_, _ = proc.Reap(func(pid int, ws unix.WaitStatus) {
				if pid == h.server.pid {
					h.onServerEnd(proc.ExitCode(ws))
				}
			})
		case proc.Restart:
			h.restartBy = proc.Earliest(h.restartBy, time.Now().Add(RestartGrace))
		case proc.RestartNow:
			h.restartBy = time.Now()
		default:
			h.finish(Verdict{Why: "the shared server was stopped"}, false)
		}
	}
}

// RestartGrace is how long open calls may take before the server ends because another one is wanted.
const RestartGrace = 30 * time.Second

func (h *host) onTime(now time.Time) {
	if proc.IsDue(h.listAt, now) {
		h.writeList()
	}
	if proc.IsDue(h.freeAt, now) {
		h.freeMemory()
	}
	if !h.restartBy.IsZero() && (proc.IsDue(h.restartBy, now) || !h.mux.Calls()) {
		h.restartBy = time.Time{}
		if h.server.pid != 0 {
			h.endServer("the server was restarted before it answered")
		}
	}
	if proc.IsDue(h.lingerAt, now) {
		h.finish(Verdict{}, true)
	}
	if proc.IsDue(h.endBy, now) {
		h.giveUp()
	}
	if h.gateway < 0 && !h.o.Gateway.Zero() && h.reader.Life(h.o.Gateway) == proc.Dead {
		h.finish(Verdict{}, false)
	}
}

func (h *host) accept() {
	for !h.ending {
		fd, _, err := unix.Accept4(h.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil: // What it waits for comes with a client that leaves, and the kernel would report it without a pause.
			proc.Sleep(acceptPause) // A timer would make another descriptor.
			return
		}
		if samePeer(fd) != nil {
			_ = unix.Close(fd)
			continue
		}
		h.lastID++
		c := newClient(h.lastID, fd)
		h.clients[c.id] = c
	}
}

// freePause is how long after a long message its memory is given back. Until then the next one has it: what is made anew for each
// leaves pages behind that the runtime does not give back.
const freePause = time.Second

func (h *host) freeMemory() {
	h.freeAt = time.Time{}
	for _, c := range h.clients {
		c.Shrink()
	}
	h.server.Shrink()
	debug.FreeOSMemory()
}

func (h *host) count(by int) {
	h.attached += by
	h.lingerAt = time.Time{}
	if h.attached == 0 && !h.ending {
		h.lingerAt = time.Now()
		if !h.leftAt.IsZero() {
			h.lingerAt = h.leftAt.Add(h.o.Linger)
		}
		// A later session would wait for the answer that this one has not waited for, and the server may hang. Nor is there
		// anybody to wait for if the server has roots, or was not started.
		if h.mux.Initializing() || h.mux.Closed() || h.server.pid == 0 {
			h.lingerAt = time.Now()
		}
	}
	if h.listAt.IsZero() && !h.ending && !h.unlisted {
		h.listAt = time.Now().Add(listPause)
	}
	h.done = h.done || h.lastVerdict != nil && h.attached == 0
}

// writeList writes the list of sessions for ps.
func (h *host) writeList() {
	h.listAt = time.Time{}
	s := session.Sharing{Host: h.self, Gateway: h.o.Gateway, Parts: h.parts, Sessions: []session.Attached{}}
	for _, c := range h.clients {
		if c.attached {
			s.Sessions = append(s.Sessions, session.Attached{ID: c.hello.Session, Gateway: c.hello.Gateway})
		}
	}
	if errors.Is(h.place.Tell(s), unix.ENOENT) {
		h.unlisted, h.o.Linger = true, 0
		h.count(0)
	}
}
