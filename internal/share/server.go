package share

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// server is the session of the shared server, which is our child.
type server struct {
	pid int // 0 while there is none
	relay.Peer
	// stderr is what it writes to standard error, of which tail is the end.
	stderr relay.Peer
	tail   relay.Tail
	// ordered and turns are what is to be written to it next: what has an order, which comes first, and what each client has said,
	// which take turns.
	ordered []mux.Out
	turns   []*turn
	// size is the length of these, in bytes, replies that of the answers to its own requests without a client.
	size, replies int64
	// spoke says that it has written a line, and why, why it is to end.
	spoke bool
	why   string
}

// turn is what a client has said and the server has not taken.
type turn struct {
	from  mux.Client
	lines []mux.Out
}

func (s *server) reset() {
	s.Peer.Close()
	s.stderr.Close()
	*s = server{Peer: s.Peer, stderr: s.stderr}
}

func (h *host) begin() {
	if err := h.startServer(); err != nil {
		h.endWithServer(Verdict{Next: Anew, Code: waiting.ExitFailure, Why: fmt.Sprintf("the server cannot be started: %v", err)})
	}
}

func (h *host) startServer() error {
	s := &h.server
	child := proc.Child{NewGroup: true}
	done, err := s.Connect(&child)
	if err != nil {
		return fmt.Errorf("make its pipes: %w", err)
	}
	defer done()
	errs, theirs, err := relay.Pipe(true)
	if err != nil {
		return fmt.Errorf("make its pipes: %w", err)
	}
	defer unix.Close(theirs)
	s.stderr.In, s.stderr.Ended, child.Stderr = errs, false, theirs
	// What is in the pipe comes before the next client's first call.
	_, _ = unix.FcntlInt(uintptr(s.Out.FD()), unix.F_SETPIPE_SZ, writtenAhead)
	s.pid, err = h.o.Start(child, session.EnvShared+"="+h.o.Key)
	return err
}

// writtenAhead is how many bytes are given to the server at once, and how many it is offered that it has not read.
const writtenAhead = 8 << 10

func (h *host) put(o mux.Out) {
	s := &h.server
	if s.pid != 0 && s.Out.FD() < 0 {
		return
	}
	h.countBytes(o, 1)
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

// countBytes counts a line for the server that comes (1) or goes (-1).
func (h *host) countBytes(o mux.Out, by int64) {
	size := by * int64(len(o.Line))
	h.server.size += size
	if o.Reply {
		h.server.replies += size
	}
	if c := h.clients[o.From]; c != nil {
		c.ahead += size
	}
}

// next takes the next line for the server: a line of each client in turn.
func (s *server) next() (o mux.Out) {
	if len(s.ordered) > 0 {
		o, s.ordered[0] = s.ordered[0], mux.Out{}
		s.ordered = s.ordered[1:]
		return o
	}
	t := s.turns[0]
	o, t.lines[0] = t.lines[0], mux.Out{}
	s.turns, t.lines = s.turns[1:], t.lines[1:]
	if len(t.lines) > 0 {
		s.turns = append(s.turns, t)
	}
	return o
}

func (h *host) feed() {
	s := &h.server
	if s.pid == 0 {
		return
	}
	for s.Flush(); s.Waiting() == 0 && s.size > 0 && !s.Broken; s.Flush() {
		for s.Waiting() < writtenAhead && s.size > 0 {
			o := s.next()
			h.countBytes(o, -1)
			s.Put(o.Line)
		}
	}
	if s.Broken {
		h.stopWriting()
	}
}

// stopWriting closes the standard input of a server that does not read any more, or whose answers cannot come: its end
// follows.
func (h *host) stopWriting() {
	s := &h.server
	s.Out.Close()
	s.TakeOutbox()
	for s.size > 0 {
		h.countBytes(s.next(), -1)
	}
}

// readServer reads once from the server, and passes its whole lines on. It returns how many bytes there were.
func (h *host) readServer() int {
	s := &h.server
	n := s.Read()
	for line := s.Line(); line != nil; line = s.Line() {
		h.fromServer(line)
	}
	switch {
	case s.Ended:
		h.lastLine()
		s.In.Close()
		// Whatever the server still does, no answer can come any more: it is to end.
		h.stopWriting()
	case int64(s.Unfinished()) > h.longest:
		h.endServer(fmt.Sprintf("the server wrote a message of more than %d bytes", h.longest))
	}
	return n
}

// lastLine passes on what the server has written without an end of line.
func (h *host) lastLine() {
	if rest := h.server.TakeRest(); len(rest) > 0 {
		h.fromServer(append(rest, '\n'))
	}
}

func (h *host) fromServer(line []byte) {
	h.server.spoke = true
	if h.o.Guard && mcp.IsStray(line) {
		h.tellFirst(line)
	}
	h.deliver(h.mux.FromServer(line))
}

// endServer ends a server that is of no use any more. Nothing that it still writes is read.
func (h *host) endServer(why string) {
	s := &h.server
	s.why = why
	s.TakeRest()
	s.In.Close()
	s.Ended = true
	_ = proc.SignalChild(s.pid, unix.SIGTERM)
}

// readStderr passes on what the server writes to standard error. It returns how many bytes there were.
func (h *host) readStderr() int {
	s := &h.server
	n := s.stderr.Read()
	text := s.stderr.TakeRest()
	if h.o.KeepStderr {
		s.tail.Add(text)
	}
	h.tellFirst(text)
	return n
}

// tellFirst writes to standard error of the session that has been attached longest. What that does not take at once is lost.
func (h *host) tellFirst(text []byte) {
	var first *client
	for _, c := range h.clients {
		if c.attached && (first == nil || c.id < first.id) {
			first = c
		}
	}
	if first != nil && len(text) > 0 {
		_, _ = first.stderr.Write(text)
	}
}

func (h *host) onServerEnd(code int) {
	s := &h.server
	s.pid = 0 // It is reaped, and another process may have its pid.
	s.Drain(h.readServer)
	h.lastLine()
	s.stderr.Drain(h.readStderr)
	v := Verdict{Next: Anew, Code: code, Why: s.why}
	switch said := s.tail.Said(); {
	case v.Why != "":
	case s.spoke:
		v.Why = fmt.Sprintf("the server ended (exit code %d) before it answered%s", code, said)
	default:
		v.Why = fmt.Sprintf("the server exited with code %d before it had answered anything%s", code, said)
	}
	s.reset()
	if h.ending {
		h.done = true
		return
	}
	h.endWithServer(v)
}
