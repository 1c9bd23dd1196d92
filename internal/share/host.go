package share

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/mcp"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// Launch starts a host in a session of its own, and returns. It is called by a process that ends at once.
func Launch(o Options) error {
	null, err := proc.OpenNull()
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	h := o.Host
	h.Launches = false
	_, err = proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.HostArgs(o.Program, h, o.Words), Env: proc.Environ(), NewSession: true,
		Stdin: null, Stdout: null, Stderr: null,
	})
	if err != nil {
		return fmt.Errorf("start the host from %s: %w", proc.SelfExe, err)
	}
	return nil
}

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
	// parts are those of its sessions' key, by their hashes.
	parts map[string]string

	polled            int
	signals           *proc.Signals
	listener, gateway int
	caught            []unix.Signal

	mux     *mux.Mux
	clients map[mux.Client]*client
	// closing are the clients whose input is closed.
	closing map[*client]bool
	last    mux.Client
	// first is the oldest client, which gets what the server writes to standard error.
	first *client
	// attached counts the clients that have said hello, most is how many there may be.
	attached, most int
	// longest bounds a message, in bytes.
	longest int64
	// queued is how many bytes wait for clients.
	queued int64
	// touched are clients with something to write, or with something to be looked at.
	touched []*client

	server server
	// parting is what the clients are told once they have all that the server has written: it has ended. It is nil before.
	parting *verdict
	// throttledUntil is until when the server is held back because too much waits for clients; zero if it is not.
	throttledUntil time.Time
	// leftAt is when the last client left that did not fall asleep: that one was idle for long enough. lingerAt is when the server
	// has been without one for long enough. tellAt is when the list for ps is to be written, freeAt when to give back the memory
	// of long messages. Zero means never.
	leftAt, lingerAt, tellAt, freeAt time.Time
	// restartBy is when the server ends, if calls are still open then, because another one is wanted; zero where none is.
	restartBy time.Time
	// unlisted says that the directory of the records was removed, so no session finds the host any more.
	unlisted bool
	// ending says that the host ends; endBy is when it stops waiting for its server.
	ending bool
	endBy  time.Time
	done   bool
}

const (
	// firstWait is how long the first client may take to come. One that takes longer starts another host.
	firstWait = 3 * time.Second
	// tellPause bounds how often the list for ps is written.
	tellPause = 50 * time.Millisecond
	// outputBudget is how many bytes may wait for clients, beside one message.
	outputBudget = 64 << 20
	// throttleTime bounds how long a client that does not read may hold up the others, each time outputBudget is exceeded.
	throttleTime = time.Second
	// acceptPause is how long the host waits where there is no descriptor for a connection, or no memory.
	acceptPause = 10 * time.Millisecond
	// longestWait bounds one wait: epoll_wait(2) takes 32 bits of milliseconds, 25 days, and waits for ever for more.
	longestWait = 24 * time.Hour
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
	h := &host{o: o, longest: mcp.DefaultMax, listener: o.Listener, gateway: o.GatewayFD, clients: map[mux.Client]*client{}, closing: map[*client]bool{}}
	h.mux = mux.New()
	h.server.forget()
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

// release lets the next host of the place begin.
func (h *host) release() {
	if h.lock != nil {
		_ = h.lock.Remove()
		h.lock = nil
	}
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
	if h.polled, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("make a poll set: %w", err)
	}
	h.most = h.room()
	h.watch(h.signals.FD(), source{kind: onSignals}, unix.EPOLLIN)
	h.watch(h.listener, source{kind: onListener}, unix.EPOLLIN)
	if h.gateway >= 0 {
		h.watch(h.gateway, source{kind: onGateway}, unix.EPOLLIN)
	}
	h.lingerAt = time.Now().Add(max(h.o.Linger, firstWait))
	h.tell()
	return nil
}

// room is how many clients there may be.
func (h *host) room() int {
	var limit unix.Rlimit
	most := 100
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		most = int(min(limit.Cur, 1<<20)-32) / perClient
	}
	return max(most, 1)
}

// source is something that the host waits for.
type source struct {
	client mux.Client
	kind   kind
}

type kind uint8

const (
	onSignals kind = iota
	onListener
	onGateway
	onServerIn
	onServerOut
	onServerErr
	onConn
	onIn
	onOut
)

const kindBits = 4

func (s source) event(events uint32) *unix.EpollEvent {
	n := uint64(s.client)<<kindBits | uint64(s.kind)
	return &unix.EpollEvent{Events: events, Fd: int32(uint32(n)), Pad: int32(uint32(n >> 32))}
}

func sourceOf(e *unix.EpollEvent) source {
	n := uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd))
	return source{mux.Client(n >> kindBits), kind(n & (1<<kindBits - 1))}
}

// watch waits for events of fd; errors and hang-ups are always reported. It reports false if fd cannot be waited for,
// because it is always ready.
func (h *host) watch(fd int, s source, events uint32) bool {
	return unix.EpollCtl(h.polled, unix.EPOLL_CTL_ADD, fd, s.event(events)) == nil
}

func (h *host) change(fd int, s source, events uint32) {
	_ = unix.EpollCtl(h.polled, unix.EPOLL_CTL_MOD, fd, s.event(events))
}

// unwatch must come before close: other processes have the same streams open, and the kernel would still report them.
func (h *host) unwatch(fd int) {
	if fd >= 0 {
		_ = unix.EpollCtl(h.polled, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// step waits once, and acts on what has happened.
func (h *host) step() {
	var events [64]unix.EpollEvent
	n, err := unix.EpollWait(h.polled, events[:], h.timeout())
	if err != nil && !errors.Is(err, unix.EINTR) {
		h.finish(verdict{Code: exitFailure, Why: "the host cannot wait: " + err.Error()}, false)
		return
	}
	for i := range max(n, 0) {
		h.on(sourceOf(&events[i]), events[i].Events)
	}
	h.onTime(time.Now())
	h.carryOut()
	if !h.throttledUntil.IsZero() {
		h.unthrottle(time.Now())
		h.carryOut()
	}
}

// timeout is in milliseconds, -1 for ever.
func (h *host) timeout() int {
	due := time.Time{}
	for _, t := range [...]time.Time{h.lingerAt, h.tellAt, h.freeAt, h.endBy, h.throttledUntil, h.restartBy} {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	for c := range h.closing {
		if !c.endBy.IsZero() && (due.IsZero() || c.endBy.Before(due)) {
			due = c.endBy
		}
	}
	wait := -1
	if !due.IsZero() {
		wait = int(min(max(time.Until(due), 0), longestWait)/time.Millisecond) + 1
	}
	if h.gateway < 0 && !h.o.Gateway.Zero() && (wait < 0 || wait > int(proc.LookPause/time.Millisecond)) {
		wait = int(proc.LookPause / time.Millisecond)
	}
	return wait
}

func (h *host) on(s source, events uint32) {
	switch s.kind {
	case onSignals:
		h.onSignals()
	case onListener:
		h.accept()
	case onGateway:
		h.finish(verdict{}, false)
	case onServerIn:
		if events&unix.EPOLLERR != 0 {
			h.stopWriting()
			return
		}
		h.server.flush(h)
	case onServerOut:
		h.readServer()
	case onServerErr:
		h.readServerErr()
	case onConn, onIn, onOut:
		c := h.clients[s.client]
		switch {
		case c == nil:
		case s.kind == onConn && !c.attached:
			h.takeHello(c)
		case s.kind == onConn:
			h.leave(c)
		case s.kind == onIn && c.reads:
			h.read(c)
		case s.kind == onIn: // It is held back, or was since these events were asked for.
			if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
				h.endSoon(c)
			}
		case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
			h.detach(c, &verdict{})
		default:
			h.touch(c)
		}
	}
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
			h.restartBy = proc.Earliest(h.restartBy, time.Now().Add(restartGrace))
		case proc.RestartNow:
			h.restartBy = time.Now()
		default:
			h.finish(verdict{Why: "the shared server was stopped"}, false)
		}
	}
}

func (h *host) onTime(now time.Time) {
	isDue := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if isDue(h.tellAt) {
		h.tell()
	}
	if isDue(h.freeAt) {
		h.freeMemory()
	}
	if !h.restartBy.IsZero() && (isDue(h.restartBy) || !h.mux.Calls()) {
		h.restartBy = time.Time{}
		if h.server.pid != 0 {
			h.endServer("the server was restarted before it answered")
		}
	}
	if isDue(h.lingerAt) {
		h.finish(verdict{}, true)
	}
	if isDue(h.endBy) {
		h.giveUp()
	}
	if h.gateway < 0 && !h.o.Gateway.Zero() && h.reader.Life(h.o.Gateway) == proc.Dead {
		h.finish(verdict{}, false)
	}
	for c := range h.closing {
		if isDue(c.endBy) {
			h.detach(c, &verdict{})
		}
	}
}

// carryOut carries out the consequences of the last events, then the consequences of those, until there are no more.
func (h *host) carryOut() {
	for {
		switch {
		case h.server.pid != 0:
			h.server.flush(h)
		case h.server.size > 0 && !h.ending:
			h.begin()
			continue
		}
		h.server.listen(h)
		if len(h.touched) == 0 {
			return
		}
		touched := h.touched
		h.touched = nil
		for _, c := range touched {
			c.touched = false
			if h.clients[c.id] == c {
				h.serve(c)
			}
		}
	}
}

// giveUp ends the host although its server has not ended, or a client does not read.
func (h *host) giveUp() {
	h.done = true
	if h.parting != nil {
		for _, c := range h.clients {
			h.detach(c, h.parting)
		}
	}
}

// accept takes the connections that wait.
func (h *host) accept() {
	for !h.ending {
		fd, _, err := unix.Accept4(h.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil: // What it waits for comes with a client that leaves, and the kernel would report it without a pause.
			time.Sleep(acceptPause)
			return
		}
		if samePeer(fd) != nil {
			_ = unix.Close(fd)
			continue
		}
		h.last++
		c := newClient(h.last, fd)
		h.clients[c.id] = c
		h.watch(fd, source{c.id, onConn}, unix.EPOLLIN)
	}
}

// deliver queues what is to be written.
func (h *host) deliver(outs []mux.Out) {
	for _, o := range outs {
		if o.To == mux.Server {
			h.put(o)
			continue
		}
		c := h.clients[o.To]
		if c == nil || !c.attached {
			continue
		}
		c.queue = append(c.queue, o)
		c.queued += int64(len(o.Line))
		h.queued += int64(len(o.Line))
		h.touch(c)
	}
	clear(outs) // Otherwise a long line would live until the next one.
	if h.queued > outputBudget+h.longest && h.throttledUntil.IsZero() {
		h.throttledUntil = time.Now().Add(throttleTime) // Those that read go on with what is queued for them.
	}
}

// restartGrace is how long open calls may take before the server ends because another one is wanted.
const restartGrace = 30 * time.Second

// unthrottle lets the server go on once there is room. After throttleTime the client with most queued bytes ends.
func (h *host) unthrottle(now time.Time) {
	switch {
	case h.queued <= outputBudget/2:
		h.throttledUntil = time.Time{}
		return
	case now.Before(h.throttledUntil):
		return
	}
	var most *client
	for _, c := range h.clients {
		if most == nil || c.queued > most.queued {
			most = c
		}
	}
	h.refuse(most, fmt.Sprintf("this session does not read: %d bytes were waiting for it", most.queued))
	h.throttledUntil = now.Add(throttleTime)
}

// touch has a client served in this step.
func (h *host) touch(c *client) {
	if !c.touched {
		c.touched = true
		h.touched = append(h.touched, c)
	}
}

// touchAll has all clients served in this step.
func (h *host) touchAll() {
	for _, c := range h.clients {
		if c.attached {
			h.touch(c)
		}
	}
}

// finish ends the host: no session finds it any more, those that it has are notified, and the server is ended. If
// polite, that only closes the server's standard input; the server's session does the rest.
func (h *host) finish(v verdict, polite bool) {
	if h.ending {
		return
	}
	h.withdraw()
	h.release()
	for _, c := range h.clients {
		h.detach(c, &v)
	}
	if h.server.pid == 0 {
		h.done = true
		return
	}
	h.endBy = time.Now().Add(h.o.EndLimit)
	if polite {
		h.shut(&h.server.in)
		return
	}
	_ = proc.SignalChild(h.server.pid, unix.SIGTERM)
}

// withdraw has no session find the host any more.
func (h *host) withdraw() {
	h.ending = true
	_ = h.place.Withdraw()
	h.unwatch(h.listener)
	_ = unix.Close(h.listener)
	if h.gateway >= 0 {
		h.unwatch(h.gateway)
	}
	h.lingerAt, h.tellAt = time.Time{}, time.Time{}
}

// part ends a host whose server has ended. The next host of the place may begin at once. The clients that do not read get the
// time of --eof-grace for what is queued for them.
func (h *host) part(v verdict) {
	h.withdraw()
	h.release()
	h.parting, h.endBy = &v, time.Now().Add(h.o.EOFGrace)
	for _, c := range h.clients {
		if !c.attached { // Its front has not been heard, and goes to the next host.
			h.drop(c)
			continue
		}
		h.stopReading(c)
		h.touch(c)
	}
	h.done = len(h.clients) == 0
}

// freePause is how long after a long message its memory is given back.
const freePause = time.Second

// freeSoon has the memory of long messages given back. Until then the next one has it: what is made anew for each leaves pages
// behind that the runtime does not give back.
func (h *host) freeSoon() {
	if h.freeAt.IsZero() {
		h.freeAt = time.Now().Add(freePause)
	}
}

// freeMemory gives it back, unless something still waits for its reader.
func (h *host) freeMemory() {
	h.freeAt = time.Time{}
	if h.queued > 0 || h.server.size > 0 {
		h.freeSoon()
		return
	}
	for _, c := range h.clients {
		if len(c.unread) == 0 {
			c.unread = nil
		}
	}
	if len(h.server.buf) == 0 {
		h.server.buf = nil
	}
	debug.FreeOSMemory()
}

// count follows the number of clients.
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
	if h.tellAt.IsZero() && !h.ending && !h.unlisted {
		h.tellAt = time.Now().Add(tellPause)
	}
	h.done = h.done || h.parting != nil && h.attached == 0
}

// tell writes the list of sessions for ps.
func (h *host) tell() {
	h.tellAt = time.Time{}
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
