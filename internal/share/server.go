package share

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/mcp"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
)

// server is the session of the shared server, which is our child.
type server struct {
	pid          int // 0 while there is none
	in, out, err int
	// ordered and turns are what is to be written to it: what has an order, which comes first, and what each client has said,
	// which take turns. queue comes before them all; sent is how much of its first line was written.
	ordered, queue []mux.Out
	turns          []*turn
	sent           int
	// size is the length of all that is to be written, in bytes, replies that of the answers to its own requests without a client.
	size, replies int64
	// waits says that its side is full.
	waits bool
	// unheard says that it is not read from for now.
	unheard bool
	// buf is what it has written of its next line. The first scanned bytes are known to have no end of line.
	buf     []byte
	scanned int
	// spoke says that it has written a line, and why, why it is to end.
	spoke bool
	why   string
	// last is what it has written to standard error.
	last relay.Tail
}

// forget sets the state without a server.
func (s *server) forget() {
	s.pid, s.in, s.out, s.err = 0, -1, -1, -1
	s.drop()
	s.waits, s.unheard = false, false
	s.buf, s.scanned = nil, 0
}

// drop forgets what is to be written.
func (s *server) drop() {
	s.ordered, s.queue, s.turns, s.sent, s.size, s.replies = nil, nil, nil, 0, 0, 0
}

// turn is what a client has said and the server has not taken.
type turn struct {
	from  mux.Client
	lines []mux.Out
}

// begin starts the server, for the first client.
func (h *host) begin() {
	if err := h.startServer(); err != nil {
		h.part(verdict{Next: nextAnew, Code: exitFailure, Why: fmt.Sprintf("the server cannot be started: %v", err)})
	}
}

func (h *host) startServer() error {
	var in, out, errs [2]int
	for i, p := range []*[2]int{&in, &out, &errs} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			for _, made := range []*[2]int{&in, &out, &errs}[:i] {
				closeAll(made[:])
			}
			return fmt.Errorf("make its pipes: %w", err)
		}
	}
	ours := []int{in[1], out[0], errs[0]}
	theirs := []int{in[0], out[1], errs[1]}
	for _, fd := range ours {
		_ = unix.SetNonblock(fd, true)
	}
	pid, err := proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.SessionArgs(h.o.Program, h.o.Words), Env: h.serverEnv(), NewGroup: true,
		Stdin: in[0], Stdout: out[1], Stderr: errs[1],
	})
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return err
	}
	s := &h.server
	s.pid, s.in, s.out, s.err = pid, ours[0], ours[1], ours[2]
	// What is in the pipe comes before the next client's first call.
	_, _ = unix.FcntlInt(uintptr(s.in), unix.F_SETPIPE_SZ, writtenAhead)
	h.watch(s.in, source{kind: onServerIn}, 0)
	h.watch(s.out, source{kind: onServerOut}, unix.EPOLLIN)
	h.watch(s.err, source{kind: onServerErr}, unix.EPOLLIN)
	return nil
}

// serverEnv is the environment of the first client, and the variable that marks the session as a shared server's.
func (h *host) serverEnv() []string {
	return append(proc.Environ(), session.EnvShared+"="+h.o.Key)
}

// writtenAhead is how many bytes are given to the server at once, and how many it is offered that it has not read.
const writtenAhead = 8 << 10

// put queues a line for the server.
func (h *host) put(o mux.Out) {
	s := &h.server
	if s.pid != 0 && s.in < 0 {
		return
	}
	s.size += int64(len(o.Line))
	s.replies += replySize(o)
	if c := h.clients[o.From]; c != nil {
		c.ahead += int64(len(o.Line))
	}
	if o.Ordered {
		s.ordered = append(s.ordered, o)
		return
	}
	i := slices.IndexFunc(s.turns, func(t *turn) bool { return t.from == o.From })
	if i < 0 {
		i, s.turns = len(s.turns), append(s.turns, &turn{from: o.From})
	}
	s.turns[i].lines = append(s.turns[i].lines, o)
}

// refill takes the next lines for the server: a line of each client in turn.
func (s *server) refill() {
	s.queue, s.ordered = s.ordered, nil
	for size := 0; size < writtenAhead && len(s.turns) > 0; {
		t := s.turns[0]
		s.queue = append(s.queue, t.lines[0])
		size += len(t.lines[0].Line)
		t.lines[0] = mux.Out{}
		s.turns, t.lines = s.turns[1:], t.lines[1:]
		if len(t.lines) > 0 {
			s.turns = append(s.turns, t)
		}
	}
}

// flush writes what can be written now.
func (s *server) flush(h *host) {
	if s.in < 0 {
		return
	}
	for s.size > 0 {
		if len(s.queue) == 0 {
			s.refill()
		}
		n, err := unix.Writev(s.in, batch(s.queue, s.sent))
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			h.stopWriting()
			return
		}
		h.serverTook(n)
	}
	if waits := s.size > 0; waits != s.waits {
		s.waits = waits
		events := uint32(0)
		if waits {
			events = unix.EPOLLOUT
		}
		h.change(s.in, source{kind: onServerIn}, events)
	}
}

// stopWriting closes the standard input of a server that does not read any more, or whose answers cannot come: its end
// follows. An open one would be reported in each step, because nothing reads from it.
func (h *host) stopWriting() {
	h.server.drop()
	h.shut(&h.server.in)
	for _, c := range h.clients {
		c.ahead = 0
	}
	h.touchAll()
}

// serverTook drops from the queue what was written. A client of which little is left is heard again.
func (h *host) serverTook(n int) {
	s := &h.server
	s.size -= int64(n)
	for n += s.sent; len(s.queue) > 0 && n >= len(s.queue[0].Line); s.queue = s.queue[1:] {
		o := s.queue[0]
		n -= len(o.Line)
		s.replies -= replySize(o)
		s.queue[0] = mux.Out{}
		if c := h.clients[o.From]; c != nil {
			if c.ahead -= int64(len(o.Line)); !c.reads && c.ahead <= mayBeAhead {
				h.touch(c)
			}
		}
	}
	s.sent = n
}

// serverRead bounds one read from the server, in bytes.
const serverRead = 64 << 10

// readServer reads once from the server, and passes its whole lines on. It returns how many bytes there were.
func (h *host) readServer() int {
	s := &h.server
	if s.out < 0 {
		return 0
	}
	if cap(s.buf)-len(s.buf) < serverRead {
		s.buf = append(make([]byte, 0, max(2*cap(s.buf), 2*serverRead)), s.buf...)
	}
	n, err := unix.Read(s.out, s.buf[len(s.buf):len(s.buf)+serverRead])
	switch {
	case err == unix.EAGAIN, err == unix.EINTR:
		return 0
	case err != nil, n == 0:
		h.lastLine()
		h.shut(&s.out)
		// Whatever the server still does, no answer can come any more: it is to end.
		h.stopWriting()
		return 0
	}
	s.buf = s.buf[:len(s.buf)+n]
	h.serverLines()
	return n
}

// lastLine passes on what the server has written without an end of line.
func (h *host) lastLine() {
	if s := &h.server; len(s.buf) > 0 {
		s.buf = append(s.buf, '\n')
		h.serverLines()
	}
}

func (h *host) serverLines() {
	s := &h.server
	b := s.buf
	for {
		i := bytes.IndexByte(b[s.scanned:], '\n')
		if i < 0 {
			s.scanned = len(b)
			break
		}
		i += s.scanned
		s.scanned, s.spoke = 0, true
		if h.o.Guard && mcp.IsStray(b[:i]) {
			h.tellFirst(b[:i+1])
		}
		h.deliver(h.mux.FromServer(b[:i]))
		b = b[i+1:]
	}
	s.buf = s.buf[:copy(s.buf, b)]
	if cap(s.buf) > keptLine {
		h.freeSoon()
	}
	if int64(len(s.buf)) > h.longest {
		h.endServer(fmt.Sprintf("the server wrote a message of more than %d bytes", h.longest))
	}
}

// endServer ends a server that is of no use any more. Nothing that it still writes is read.
func (h *host) endServer(why string) {
	s := &h.server
	s.why = why
	s.buf, s.scanned = nil, 0
	h.shut(&s.out)
	_ = proc.SignalChild(s.pid, unix.SIGTERM)
}

// readServerErr passes on what the server writes to standard error, to the session that has been attached longest. What
// that session does not take at once is lost. It returns how many bytes there were.
func (h *host) readServerErr() int {
	var buf [4 << 10]byte
	s := &h.server
	if s.err < 0 {
		return 0
	}
	n, err := unix.Read(s.err, buf[:])
	switch {
	case err == unix.EAGAIN, err == unix.EINTR:
	case err != nil, n == 0:
		h.shut(&s.err)
	case h.o.KeepStderr:
		s.last.Add(buf[:n])
		fallthrough
	default:
		h.tellFirst(buf[:n])
	}
	return n
}

// tellFirst writes to standard error of the session that has been attached longest.
func (h *host) tellFirst(text []byte) {
	if h.first != nil {
		_, _ = h.first.err.Write(text)
	}
}

// replySize is what a line counts towards server.replies.
func replySize(o mux.Out) int64 {
	if o.Reply {
		return int64(len(o.Line))
	}
	return 0
}

// listen starts or stops reading from the server. It is held back while too much waits for clients, or for itself
// because of its own requests. What clients send does not count: a server may have to be read from before it reads.
func (s *server) listen(h *host) {
	unheard := !h.throttledUntil.IsZero() || s.replies > pauseReading
	if s.out < 0 || unheard == s.unheard {
		return
	}
	s.unheard = unheard
	events := uint32(unix.EPOLLIN)
	if unheard {
		events = 0
	}
	h.change(s.out, source{kind: onServerOut}, events)
}

// shut closes one of the server's streams, if it is open.
func (h *host) shut(fd *int) {
	if *fd >= 0 {
		h.unwatch(*fd)
		_ = unix.Close(*fd)
		*fd = -1
	}
}

// onServerEnd handles the end of the server's session.
func (h *host) onServerEnd(code int) {
	s := &h.server
	s.pid = 0 // It is reaped, and another process may have its pid.
	// What it wrote before, and no more: a process that outlives it may write for ever.
	for left, n := queued(s.out), 1; left > 0 && n > 0; left -= n {
		n = h.readServer()
	}
	h.lastLine()
	for left, n := queued(s.err), 1; left > 0 && n > 0; left -= n {
		n = h.readServerErr()
	}
	for _, fd := range []*int{&s.in, &s.out, &s.err} {
		h.shut(fd)
	}
	said := s.last.Said()
	s.forget()
	if h.ending {
		h.done = true
		return
	}
	v := verdict{Next: nextAnew, Code: code, Why: s.why}
	switch {
	case v.Why != "":
	case s.spoke:
		v.Why = fmt.Sprintf("the server ended (exit code %d) before it answered%s", code, said)
	default:
		v.Why = fmt.Sprintf("the server exited with code %d before it had answered anything%s", code, said)
	}
	h.part(v)
}
