package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-tether/internal/http1"
	"mcp-tether/internal/http2"
)

// errNoUpgrade says that a request needs a connection of its own.
var errNoUpgrade = errors.New("a stream of HTTP/2 cannot be taken over: use HTTP/1.1 for attach, exec, /session and /grpc")

// withoutUpgrade refuses a request that would take its connection over, because that is a stream of HTTP/2. It passes on
// a detached exec, which takes nothing over.
func (l *link) withoutUpgrade(x *exchange, head []byte, to route) bool {
	var asked struct{ Detach bool }
	body := x.request.Body()
	object, raw, refused := l.readAhead(x.request, body)
	switch {
	case refused != nil:
		return l.refuse(x.request, refused.status, refused.err)
	case to.action != actionExec || json.Unmarshal(object, &asked) != nil || !asked.Detach:
		return l.refuse(x.request, notImplemented, errNoUpgrade)
	}
	return l.forwardRest(x, append(head, raw...), body)
}

// stream is one stream of HTTP/2. If it is translated it is also the client's end of a connection in HTTP/1.1. The
// framed's mutex guards what is not constant.
type stream struct {
	f         *framed
	id        uint32
	requested bool // the client has sent everything
	responded bool // the client has the whole response
	gone      bool // nothing more is heard of it

	// Of a translated one:
	method  string
	answer  *io.PipeWriter // what the proxy responds; nil for gRPC
	answers *io.PipeReader
	arrived sync.Cond
	front   []byte // to be read before data
	data    []byte // of the request's body
	now     int    // how much of data is the current chunk
	chunked bool
	left    int64 // of a body with a length, in bytes
	granted int64 // what the client may still send
	owed    int64 // what was read and may be granted again
	window  int64 // what the client takes
	closed  atomic.Bool
}

func (s *stream) isTranslated() bool { return s.answer != nil }

// grantStep is how much is read of a body before the client may send more, in bytes.
const grantStep = http2.InitialWindow / 4

// translate opens a connection in HTTP/1.1 for a request. f.mu must be held.
func (f *framed) translate(frame http2.Frame, r fields) error {
	s := &stream{
		f: f, id: frame.Stream, method: r.method, requested: frame.EndStream(), granted: f.open, window: f.initial,
		chunked: r.length < 0 && !frame.EndStream(), left: r.length, front: []byte(r.head(frame.EndStream())),
	}
	if s.requested && r.length > 0 {
		return errLength(s.id)
	}
	s.arrived.L = &f.mu
	s.answers, s.answer = io.Pipe()
	f.streams[s.id] = s
	f.translated.Add(1)
	f.lastTranslated = s.id
	f.l.p.serving.Go(s.respond)
	f.l.p.serve(s, true)
	return nil
}

func errLength(stream uint32) error {
	return fmt.Errorf("%w: the body on stream %d has not the length that was announced", http2.ErrMalformed, stream)
}

// head returns a request's head in HTTP/1.1.
func (r fields) head(bodiless bool) string {
	var b strings.Builder
	line := func(name, value string) { b.WriteString(name + ": " + value + "\r\n") }
	b.WriteString(r.method + " " + r.path + " HTTP/1.1\r\n")
	host := r.authority
	for _, field := range r.regular {
		switch field.Name {
		case "host":
			host = field.Value
		case "te", "trailer":
		default:
			line(field.Name, field.Value)
		}
	}
	line("Host", host)
	switch {
	case r.length >= 0:
	case !bodiless:
		line("Transfer-Encoding", "chunked")
	case r.method != http1.MethodGet && r.method != http1.MethodHead:
		line("Content-Length", "0")
	}
	return b.String() + "\r\n"
}

// receive takes a part of the request's body, which used n bytes of the windows. f.mu must be held.
func (s *stream) receive(data []byte, n int64, end bool) error {
	if s.granted -= n; s.granted < 0 {
		return errWindow(s.id)
	}
	if !s.chunked {
		if s.left -= int64(len(data)); s.left < 0 || end && s.left > 0 {
			return errLength(s.id)
		}
	}
	if !s.f.l.p.budget.take(int64(len(data))) {
		s.f.giveBack(n)
		s.f.client.Reset(s.id, http2.CodeCalm)
		s.f.drop(s)
		return nil
	}
	s.data = append(s.data, data...)
	s.owed += n - int64(len(data))
	s.requested = end
	s.arrived.Broadcast()
	return nil
}

// abandon ends the connection in HTTP/1.1, as if its client had hung up. f.mu must be held.
func (s *stream) abandon() {
	if s.gone = true; !s.isTranslated() {
		return
	}
	s.f.giveBack(s.owed + int64(len(s.data)))
	s.f.l.p.budget.give(int64(len(s.data)))
	s.data, s.owed = nil, 0
	s.arrived.Broadcast()
	_ = s.answers.Close()
}

// Read reads the request in HTTP/1.1. After the request it waits until the client hangs up.
func (s *stream) Read(b []byte) (int, error) {
	s.f.mu.Lock()
	for !s.gone && len(s.front) == 0 && len(s.data) == 0 && (!s.requested || !s.chunked) {
		s.arrived.Wait()
	}
	n, err := s.read(b)
	s.f.mu.Unlock()
	return n, errors.Join(err, s.f.client.Start())
}

// read reads what is there. f.mu must be held.
func (s *stream) read(b []byte) (n int, err error) {
	switch {
	case s.gone:
		return 0, io.EOF
	case len(s.front) == 0 && s.now == 0 && len(s.data) == 0:
		s.front, s.chunked = []byte("0\r\n\r\n"), false
	case len(s.front) == 0 && s.now == 0:
		if s.now = len(s.data); s.chunked {
			s.front = append(strconv.AppendInt(nil, int64(s.now), 16), "\r\n"...)
		}
	}
	n = copy(b, s.front)
	if s.front = s.front[n:]; len(s.front) > 0 || s.now == 0 {
		return n, nil
	}
	return n + s.readData(b[n:]), nil
}

// readData reads from the current chunk, and lets the client send more. f.mu must be held.
func (s *stream) readData(b []byte) int {
	n := copy(b, s.data[:s.now])
	s.data, s.now = s.data[n:], s.now-n
	if s.now == 0 && s.chunked {
		s.front = []byte("\r\n")
	}
	s.f.l.p.budget.give(int64(n))
	if s.owed += int64(n); s.owed < grantStep && len(s.data) > 0 {
		return n
	}
	s.f.giveBack(s.owed)
	if !s.requested {
		s.granted += s.owed
		s.f.client.WindowUpdate(s.id, s.owed)
	}
	s.owed = 0
	return n
}

// Write takes the response in HTTP/1.1.
func (s *stream) Write(b []byte) (int, error) { return s.answer.Write(b) }

// CloseWrite says that the response is complete.
func (s *stream) CloseWrite() error { return s.answer.Close() }

// Close ends the connection. It takes no lock, because its callers hold some.
func (s *stream) Close() error {
	if !s.closed.Swap(true) {
		s.f.translated.Add(-1)
	}
	return s.answer.Close()
}

// SetReadDeadline always fails. linger would use it to wait for a client that is still sending, but a stream's client
// can get a refusal at any time.
func (s *stream) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// LocalAddr completes net.Conn and is not used.
func (s *stream) LocalAddr() net.Addr { return nil }

// RemoteAddr completes net.Conn and is not used.
func (s *stream) RemoteAddr() net.Addr { return nil }

// SetDeadline completes net.Conn and is not used.
func (s *stream) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline completes net.Conn and is not used.
func (s *stream) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// respond passes on the response, and ends the stream.
func (s *stream) respond() {
	err := s.passResponse(bufio.NewReaderSize(s.answers, http2.MaxPayload))
	f := s.f
	f.mu.Lock()
	switch {
	case s.gone:
	case err != nil:
		f.client.Reset(s.id, http2.CodeInternal)
	case !s.requested:
		f.client.Reset(s.id, http2.CodeNone) // the rest is not wanted
	}
	f.drop(s)
	f.mu.Unlock()
	_ = f.client.Start() // if the client has hung up, its reader knows
}

// passResponse passes on heads up to the final one, and the body that follows it.
func (s *stream) passResponse(br *bufio.Reader) error {
	for {
		head, err := http1.ReadHead(br)
		if err != nil {
			return err
		}
		r, err := http1.ParseResponse(head)
		if err != nil {
			return err
		}
		body := r.Body(s.method)
		all, err := responseFields(r.Status, head)
		if err != nil {
			return err
		}
		s.f.client.Headers(s.id, all, r.Status >= 200 && body.Ended())
		if r.Status >= 200 {
			return s.passBody(br, body)
		}
		_ = s.f.client.Start()
	}
}

// responseFields returns the head of a response in HTTP/2.
func responseFields(status int, head []byte) ([]http2.Field, error) {
	all := []http2.Field{{Name: ":status", Value: strconv.Itoa(status)}}
	err := http1.EachField(head, func(name, value string) error {
		switch name = strings.ToLower(name); name {
		case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "trailer":
		default:
			all = append(all, http2.Field{Name: name, Value: value})
		}
		return nil
	})
	return all, err
}

func (s *stream) passBody(br *bufio.Reader, body *http1.Body) (err error) {
	var data []byte
	for !body.Ended() {
		if br.Buffered() == 0 {
			_ = s.f.client.Flush() // if the client has hung up, its reader knows
		}
		data, err = body.Next(br, data[:0])
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if end = end || body.Ended(); len(data) == 0 && !end {
			continue
		}
		if err := s.send(data, end); err != nil || end {
			return err
		}
	}
	return nil
}

// send sends a part of the response's body, as the client takes it.
func (s *stream) send(data []byte, end bool) error {
	f := s.f
	for {
		f.mu.Lock()
		f.await(func() bool { return len(data) > 0 && min(s.window, f.window) <= 0 && !s.gone })
		n := max(0, min(len(data), int(s.window), int(f.window), http2.MaxPayload))
		s.window -= int64(n)
		f.window -= int64(n)
		f.lent += int64(n)
		gone := s.gone
		f.mu.Unlock()
		if gone {
			return net.ErrClosed
		}
		last := n == len(data)
		f.client.Data(s.id, data[:n], end && last)
		if last {
			return nil
		}
		data = data[n:]
	}
}
