package container

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
)

// link is one client's connection, and the one to the engine that belongs to it.
//
// Two goroutines share it: requests hears the client, and answers hears the engine. There is one exchange at a time: what
// the client says after a request stays unread until the answer to it has been passed on, because only the answer tells
// whether it is another request or the client's part of a stream. The engines, net/http all of them, take one request
// after the other as well, so nobody has to wait for that.
type link struct {
	p          *Proxy
	client     net.Conn
	fromClient *bufio.Reader
	engine     net.Conn // nil before the first request
	fromEngine *bufio.Reader
	answered   bool           // once, at least
	asked      chan *exchange // from requests to answers
	ended      chan struct{}  // closed when answers has ended; nil before the first request

	mu     sync.Mutex // for engine, while shut may come at any time
	isShut bool
}

// bufferSize is what one read takes at most, in bytes: the engines and their clients copy in pieces of this size.
const bufferSize = 32 << 10

func newLink(p *Proxy, client net.Conn) *link {
	return &link{
		p: p, client: client, fromClient: bufio.NewReaderSize(client, bufferSize),
		asked: make(chan *exchange, 1),
	}
}

// requests serves the client until it, or the engine, has gone.
func (l *link) requests() {
	for l.request() {
		continue
	}
	l.shut()
	if l.ended != nil {
		<-l.ended
	}
}

// shut closes both connections. It may be called at any time, and again.
func (l *link) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isShut = true
	_ = l.client.Close()
	if l.engine != nil {
		_ = l.engine.Close()
	}
}

// request serves one request. It reports whether there may be another.
func (l *link) request() bool {
	head, err := readHead(l.fromClient, headLimit)
	if errors.Is(err, errHeadTooLong) {
		return l.refuse(request{}, 431, err)
	}
	if err != nil {
		return false // the client has gone
	}
	r, err := parseRequest(head)
	if err != nil {
		return l.refuse(r, 400, err)
	}
	to, err := routeOf(r)
	if err != nil {
		return l.refuse(r, 400, err)
	}
	if l.engine == nil {
		if err := l.connect(); err != nil {
			l.p.Warn(err)
			return l.refuse(r, 502, err)
		}
	}
	return l.dispatch(head, r, to)
}

// dispatch does what there is to do for a kind of request.
func (l *link) dispatch(head []byte, r request, to route) bool {
	x := newExchange(r)
	switch to.act {
	case actCreate:
		return l.create(x, head, to)
	case actPlay:
		return l.play(x, head)
	case actStart:
		return l.start(x, head, to)
	case actRemove:
		l.p.remove(x, to)
	case actAttach:
		l.p.attach(to)
		x.mayTurn = true
	case actExec:
		x.mayTurn = true
	case actOther:
	}
	return l.forward(x, head)
}

// connect gets the connection to the engine.
func (l *link) connect() error {
	engine, err := l.p.Dial()
	if err != nil {
		return fmt.Errorf("cannot reach the container engine: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.engine = engine
	l.fromEngine = bufio.NewReaderSize(engine, bufferSize)
	l.ended = make(chan struct{})
	if l.isShut {
		_ = engine.Close()
	}
	go l.answers()
	return nil
}

// refuse answers in the engine's place and ends the connection. It reports false, for request to return.
func (l *link) refuse(r request, status int, err error) bool {
	refusal{status, err}.tell(l.client, r.method != "HEAD")
	return false
}

// forward sends a request on as it is, and waits for the answer.
func (l *link) forward(x *exchange, head []byte) bool {
	y := bodyOf(x.request.framing, false)
	// What is there of the body goes along, so that the engine wakes up once.
	err := l.ask(x, append(head, y.ready(l.fromClient)...))
	if err == nil {
		err = y.pass(l.engine, l.fromClient)
	}
	return l.await(x, err)
}

// ask sends the beginning of a request, or all of it.
func (l *link) ask(x *exchange, b []byte) error {
	select {
	case l.asked <- x:
	case <-l.ended:
	}
	if _, err := l.engine.Write(b); err != nil {
		return writeError{err}
	}
	return nil
}

// await waits until the answer has been passed on, and reports whether another request may follow. sent is the error with
// which the request ended.
func (l *link) await(x *exchange, sent error) bool {
	defer x.leave()
	var write writeError
	if errors.As(sent, &write) {
		// The engine takes no more, but may have said why. It hangs up next, as it would on the client itself.
		<-l.ended
		return false
	}
	if sent == nil {
		_, sent = l.fromClient.Peek(1)
	}
	if sent != nil {
		l.clientGone(x)
		return false
	}
	select {
	case <-x.answered:
		return true
	case <-x.turned:
		l.stream()
	case <-l.ended:
	}
	return false
}

// clientGone tells the engine that the client says nothing more, and waits for what the engine still has to say to it. The
// engine may give up a create on which nobody waits; then nobody would know what exists. So that is seen to its end.
func (l *link) clientGone(x *exchange) {
	if x.settle != nil {
		select {
		case <-x.answered:
		case <-l.ended:
		}
	}
	_ = halfClose(l.engine) // an engine that has hung up needs no telling
	select {
	case <-x.answered:
	case <-l.ended:
	}
}

// stream is the client's part of one. It ends when both parts have.
func (l *link) stream() {
	_ = splice(l.engine, l.fromClient) // whichever side failed, the other part ends of itself
	<-l.ended
}

// answers passes on what the engine says, until it hangs up or the client does.
func (l *link) answers() {
	defer close(l.ended)
	var x *exchange
	for {
		var more bool
		if x, more = l.answer(x); !more {
			break
		}
	}
	select {
	case <-turned(x):
		return // the client's part may go on
	default:
		l.shut()
	}
}

func turned(x *exchange) chan struct{} {
	if x == nil {
		return nil
	}
	return x.turned
}

// answer passes on one head with its body. x is the exchange that it belongs to, nil if that is still to be found; what
// is returned is the one that the next head belongs to. It reports false when no head can follow.
func (l *link) answer(x *exchange) (*exchange, bool) {
	head, err := readHead(l.fromEngine, headLimit)
	if x == nil {
		x = l.awaited()
	}
	r, malformed := parseResponse(head)
	if err != nil || malformed != nil || x == nil {
		if len(head) > 0 || !l.complain(x) {
			l.passRaw(head)
		}
		return x, false
	}
	l.answered = true
	switch {
	case x.turns(r):
		return x, l.turn(x, head)
	case r.status < 200:
		_, err := l.client.Write(head)
		return x, err == nil
	}
	y := x.bodyOf(r)
	head = append(head, l.settle(x, r, y)...)
	if _, err := l.client.Write(append(head, y.ready(l.fromEngine)...)); err != nil {
		return x, false
	}
	if err := y.pass(l.client, l.fromEngine); err != nil || y.untilEOF {
		return x, false
	}
	close(x.answered)
	return nil, true
}

// complain tells a client whose first request was never answered what the command that should lead to the engine has said
// about that. It reports false where no command stands between: then the engine has hung up, and so do we.
func (l *link) complain(x *exchange) bool {
	helper, ok := l.engine.(interface{ Complaint() string })
	if !ok || l.answered || x == nil {
		return false
	}
	err := fmt.Errorf("cannot reach the container engine: %s", helper.Complaint())
	l.p.Warn(err)
	l.refuse(x.request, 502, err)
	return true
}

// awaited is the exchange that waits for an answer, nil if there is none.
func (l *link) awaited() *exchange {
	select {
	case x := <-l.asked:
		return x
	default:
		return nil
	}
}

// passRaw passes on what is no answer to anything, or cannot be understood, for the client to judge.
func (l *link) passRaw(head []byte) {
	if _, err := l.client.Write(head); err == nil {
		rest := body{untilEOF: true}
		_ = rest.pass(l.client, l.fromEngine) // the connection ends either way
	}
}

// turn makes the connection a stream, and is the engine's part of it. It reports false, for answer to return.
func (l *link) turn(x *exchange, head []byte) bool {
	x.leave()
	_, err := l.client.Write(head)
	close(x.turned)
	if err == nil {
		err = splice(l.client, l.fromEngine)
	}
	if err != nil {
		l.shut()
	}
	return false
}

// settle tells who wants to know how a request came out, and returns what it has read of the body for that.
func (l *link) settle(x *exchange, r response, y *body) []byte {
	if x.settle == nil {
		return nil
	}
	o := outcome{response: r}
	var raw []byte
	if x.wants && r.success() {
		raw, o.data, o.err = y.read(l.fromEngine, replyLimit)
	}
	x.settle(o)
	x.leave()
	return raw
}

// replyLimit is the longest reply to a create that is understood, in bytes; the engines write a few hundred.
const replyLimit = 1 << 20
