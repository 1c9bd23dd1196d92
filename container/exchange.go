package container

import "sync"

// exchange is one request that the engine is asked, and its answer.
type exchange struct {
	request  request
	mayTurn  bool          // an answer without a length is no body, but a stream both ways
	turned   chan struct{} // closed when the connection has turned into a stream
	answered chan struct{} // closed when the answer has been passed on in full

	// settle, if there is one, learns the outcome before the client does.
	settle func(outcome)
	// wants is set where settle needs the body of a success.
	wants bool
	// leave says once that the outcome is settled or will never be.
	leave func()
}

// outcome is what became of a request.
type outcome struct {
	response
	data []byte // the body of a success, if it was wanted
	err  error  // why the body is not there
}

// newExchange is one that passes through.
func newExchange(r request) *exchange {
	return &exchange{request: r, turned: make(chan struct{}), answered: make(chan struct{}), leave: func() {}}
}

// through makes the exchange one that the gate waits for. It reports false if the gate is shut.
func (x *exchange) through(g *gate) bool {
	if !g.enter() {
		return false
	}
	x.leave = sync.OnceFunc(g.leave)
	return true
}

// turns tells whether the connection is a stream after this answer: the client asked for another protocol and got it, or
// reads the raw stream from an answer without a length, as docker's clients did before there was an Upgrade, and dockerode
// does to this day.
func (x *exchange) turns(r response) bool {
	return r.status == 101 || x.mayTurn && r.success() && r.contentLength < 0 && !r.chunked
}

// bodyOf is the body of the answer.
func (x *exchange) bodyOf(r response) *body {
	if x.request.method == "HEAD" || r.bodiless() {
		return bodyOf(framing{contentLength: 0}, true)
	}
	return bodyOf(r.framing, true)
}
