package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/http1"
)

// link is one client's connection together with its connection to the engine.
//
// Two goroutines share it: requests reads from the client, and responses from the engine. There is one exchange at a
// time. What the client sends after a request stays unread until the response has been passed on. Only the response
// shows whether it is another request or part of a stream. The engines, which are built on net/http, take one request
// after the other as well, so no client waits longer because of us.
type link struct {
	p          *Proxy
	client     net.Conn
	fromClient *bufio.Reader
	meter      *meter   // below fromClient
	engine     net.Conn // nil before the first request
	fromEngine *bufio.Reader
	responded  bool           // the engine has sent a response
	hijacked   bool           // the connection has become a stream
	sent       chan *exchange // from requests to responses
	ended      chan struct{}  // closed when responses has ended; nil before the first request

	mu     sync.Mutex // for engine and closed, as close may be called at any time
	closed bool
}

// bufferSize is the most that one read takes, in bytes. The engines and their clients copy in pieces of this size.
const bufferSize = 32 << 10

func newLink(p *Proxy, client net.Conn) *link {
	m := &meter{Reader: client, all: &p.budget}
	return &link{
		p: p, client: client, fromClient: bufio.NewReaderSize(m, bufferSize), meter: m,
		sent: make(chan *exchange, 1),
	}
}

// requests serves the client until the client or the engine hangs up.
func (l *link) requests() {
	for l.request() {
		continue
	}
	l.close()
	if l.ended != nil {
		<-l.ended
	}
}

// close closes both connections. It may be called at any time, and again.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	_ = l.client.Close()
	if l.engine != nil {
		_ = l.engine.Close()
	}
}

// request serves one request, and reports whether another may follow.
func (l *link) request() bool {
	defer l.meter.release()
	l.meter.count()
	head, err := http1.ReadHead(l.fromClient)
	if errors.Is(err, http1.ErrHeadTooLong) {
		return l.refuse(http1.Request{}, headTooLarge, err)
	}
	if errors.Is(err, errBusy) {
		return l.refuse(http1.Request{}, unavailable, err)
	}
	if err != nil {
		return false // the client has hung up
	}
	r, err := http1.ParseRequest(head)
	if errors.Is(err, http1.ErrHTTP2) {
		return l.refuse(r, wrongVersion, err)
	}
	if err != nil {
		return l.refuse(r, badRequest, err)
	}
	to, err := routeOf(r)
	if err != nil {
		return l.refuse(r, badRequest, err)
	}
	if l.engine == nil {
		if err := l.connect(); err != nil {
			l.p.Warn(err)
			return l.refuse(r, badGateway, err)
		}
	}
	return l.dispatch(head, r, to)
}

// dispatch handles a request according to its route.
func (l *link) dispatch(head []byte, r http1.Request, to route) bool {
	x := newExchange(r)
	switch to.action {
	case actionCreate:
		return l.create(x, head, to)
	case actionRemove:
		l.p.remove(x, to)
	case actionStream:
		x.mayUpgrade, x.mayHijack = true, true
	case actionUpgrade:
		x.mayUpgrade = true
	case actionBuild:
		if !l.p.Attached {
			head = http1.WithTarget(head, removingContainers(r.Target))
		}
	case actionOther:
	}
	return l.forward(x, head)
}

// connect connects to the engine for an exchange.
func (l *link) connect() error {
	conn, err := l.p.Dial()
	if err != nil {
		return fmt.Errorf("cannot reach the container engine: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.engine = conn
	l.fromEngine = bufio.NewReaderSize(conn, bufferSize)
	if l.closed {
		_ = conn.Close()
	}
	l.ended = make(chan struct{})
	go l.responses()
	return nil
}

// refuse responds in place of the engine and ends the connection. It reports false, for request to return.
func (l *link) refuse(r http1.Request, status string, err error) bool {
	refusal{status, err}.send(l.client, r.Method != http1.MethodHead)
	return false
}

// forward passes a request on unchanged, and waits for the response.
func (l *link) forward(x *exchange, head []byte) bool {
	defer x.leave()
	body := x.request.Body()
	early, err := body.Buffered(l.fromClient)
	if err != nil {
		return l.refuse(x.request, badRequest, err)
	}
	// The part of the body that has come already goes along, so that the engine wakes up once.
	err = l.send(x, append(head, early...))
	l.meter.release()
	if err == nil {
		err = body.Copy(l.engine, l.fromClient)
	}
	if errors.Is(err, http1.ErrMalformedChunk) {
		// The engine might find another end of the body, and a request behind it. Not one more byte goes either way.
		l.p.Warn(fmt.Errorf("connection of a client ended in the middle of a request: %w", err))
		l.close()
	}
	return l.await(x, err)
}

// send sends the beginning of a request, or all of it.
func (l *link) send(x *exchange, b []byte) error {
	select {
	case l.sent <- x:
	case <-l.ended:
	}
	if _, err := l.engine.Write(b); err != nil {
		return http1.WriteError{Err: err}
	}
	return nil
}

// await waits until the response has been passed on, and reports whether another request may follow. err is the error
// with which the request ended.
func (l *link) await(x *exchange, err error) bool {
	defer x.leave()
	var write http1.WriteError
	if errors.As(err, &write) {
		// The engine reads no more, but may have said why. It hangs up next, as it would on the client itself.
		<-l.ended
		return false
	}
	cut := err != nil
	if err == nil {
		_, err = l.fromClient.Peek(1)
	}
	if err != nil {
		l.clientGone(x, cut)
		return false
	}
	select {
	case <-x.done:
		return true
	case <-x.hijacked:
	case <-l.ended: // perhaps that of a stream, of which the engine's direction has ended
	}
	if l.hijacked {
		if stream(l.engine, l.fromClient) != nil {
			// A client that is killed with unread output resets the connection, and an engine that is silent would not notice.
			_ = engine.CloseWrite(l.engine)
		}
		<-l.ended
	}
	return false
}

// clientGone tells the engine that the client sends nothing more, and waits for the rest of the response. The engine may
// abandon a create whose client has gone, and then no process would know what exists. So a create is completed first,
// unless its request is cut off: the engine would wait for the rest of it.
func (l *link) clientGone(x *exchange, cut bool) {
	if x.outcome != nil && !cut {
		select {
		case <-x.done:
		case <-l.ended:
		}
	}
	_ = engine.CloseWrite(l.engine) // an engine that has hung up need not know
	select {
	case <-x.done:
	case <-l.ended:
	}
}
