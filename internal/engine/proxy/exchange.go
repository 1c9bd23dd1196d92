package proxy

import (
	"encoding/json"
	"sync"

	"mcp-tether/internal/http1"
)

// exchange is a request to the engine and its response.
type exchange struct {
	request    http1.Request
	mayUpgrade bool          // the connection may switch to another protocol (101)
	mayHijack  bool          // a response without a length is not a body, but a stream in both directions
	hijacked   chan struct{} // closed when the connection has become a stream
	done       chan struct{} // closed when the whole response has been passed on

	// outcome, unless nil, is called with the outcome before the client learns it.
	outcome func(outcome)
	// wantsBody is set if outcome needs the body.
	wantsBody bool
	// leave leaves the gate. It is called when the outcome is known, or never will be, and may be called again.
	leave func()
}

// outcome is the result of a request.
type outcome struct {
	http1.Response
	data []byte // the body, if it was wanted
	err  error  // why there is no data
}

// decode decodes the body.
func (o outcome) decode(into any) error {
	if o.err != nil {
		return o.err
	}
	return json.Unmarshal(o.data, into)
}

// newExchange returns an exchange that makes no notes.
func newExchange(r http1.Request) *exchange {
	return &exchange{request: r, hijacked: make(chan struct{}), done: make(chan struct{}), leave: func() {}}
}

// enter makes the gate wait for the exchange. It reports false if the gate is shut.
func (x *exchange) enter(g *gate) bool {
	if !g.enter() {
		return false
	}
	x.leave = sync.OnceFunc(g.leave)
	return true
}

// hijacks reports whether a response turns the connection into a stream. Either the client asked for another protocol
// and got it, or the response is a raw stream without a length. docker's clients read the latter before they used
// Upgrade, and dockerode still does.
func (x *exchange) hijacks(r http1.Response) bool {
	return r.Status == 101 && x.mayUpgrade || x.mayHijack && r.Success() && !r.HasLength()
}
