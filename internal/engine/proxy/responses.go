package proxy

import (
	"errors"
	"fmt"

	"mcp-tether/internal/http1"
)

// responses passes on what the engine sends, until the engine or the client hangs up.
func (l *link) responses() {
	defer close(l.ended)
	var x *exchange
	for more := true; more; {
		x, more = l.response(x)
	}
	if !l.hijacked { // otherwise the client's direction may go on
		l.close()
	}
}

// response passes on one head and its body. x is the exchange that it belongs to, nil if that is still to be found. It
// returns the exchange that the next head belongs to, and reports false if no head can follow.
func (l *link) response(x *exchange) (*exchange, bool) {
	head, err := http1.ReadHead(l.fromEngine)
	if x == nil {
		x = l.awaited()
	}
	if x == nil || len(head) == 0 {
		l.reportHelper(x)
		return x, false
	}
	var r http1.Response
	if err == nil {
		r, err = http1.ParseResponse(head)
	}
	if err == nil && r.Status == 101 && !x.mayUpgrade {
		err = errUpgrade
	}
	if err != nil {
		l.endWith(x, fmt.Errorf("the container engine's response cannot be understood: %w", err))
		return x, false
	}
	l.responded = true
	switch {
	case x.hijacks(r):
		l.hijack(x, head)
		return x, false
	case r.Status < 200:
		_, err := l.client.Write(head)
		return x, err == nil
	}
	body := r.Body(x.request.Method)
	head = append(head, l.noteOutcome(x, r, body)...)
	early, _ := body.Buffered(l.fromEngine) // Copy returns the same error
	if _, err := l.client.Write(append(head, early...)); err != nil {
		return x, false
	}
	if err := body.Copy(l.client, l.fromEngine); err != nil || body.UntilEOF() {
		return x, false
	}
	close(x.done)
	return nil, true
}

// awaited returns the exchange that waits for a response, nil if there is none.
func (l *link) awaited() *exchange {
	select {
	case x := <-l.sent:
		return x
	default:
		return nil
	}
}

// errUpgrade says that the engine speaks another protocol from here on, in which nothing could be labelled.
var errUpgrade = errors.New("it switches protocols where none of its streams begins")

// reportHelper tells a client why its first request got no response: it quotes the standard error of the command that
// should lead to the engine. Where there is no command, the engine has hung up, and so does the proxy.
func (l *link) reportHelper(x *exchange) {
	if helper, ok := l.engine.(interface{ Stderr() string }); ok && !l.responded && x != nil {
		l.endWith(x, fmt.Errorf("cannot reach the container engine: %s", helper.Stderr()))
	}
}

// endWith responds to a request in place of the engine. The engine is cut off first, so that it gets no part of what
// the client may still be sending.
func (l *link) endWith(x *exchange, err error) {
	l.p.Warn(err)
	_ = l.engine.Close()
	l.refuse(x.request, badGateway, err)
}

// hijack passes on the head that turns the connection into a stream, and then the engine's direction of the stream.
func (l *link) hijack(x *exchange, head []byte) {
	x.leave()
	l.hijacked = true
	_, err := l.client.Write(head)
	close(x.hijacked)
	if err == nil {
		err = stream(l.client, l.fromEngine)
	}
	if err != nil {
		l.close()
	}
}

// maxCreated is the longest response to a create that is understood, in bytes; the engines write a few hundred.
const maxCreated = 1 << 20

// noteOutcome reports the outcome of a request to the exchange, and returns what it has read of the body for that.
func (l *link) noteOutcome(x *exchange, r http1.Response, body *http1.Body) (raw []byte) {
	if x.outcome == nil {
		return nil
	}
	o := outcome{Response: r}
	if x.wantsBody {
		o.data, o.err = body.ReadAll(l.fromEngine, maxCreated, &raw)
	}
	x.outcome(o)
	x.leave()
	return raw
}
