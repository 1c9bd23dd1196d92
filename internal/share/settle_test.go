package share

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
)

// meet is a client that has met a server, which has ended. With roots the server had asked for them.
func meet(t *testing.T, h *host, capabilities string, roots bool) *client {
	t.Helper()
	c := connect(t, h)
	h.greet(c)
	_, stdout := pipeServer(t, h)
	hears(h, c, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`}}`)
	hears(h, c, readyLine)
	lines := []string{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`}
	if roots {
		lines = append(lines, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	}
	must(t)(unix.Write(stdout, []byte(strings.Join(lines, "\n")+"\n")))
	for h.turn(t) > 0 {
	}
	if roots {
		hears(h, c, `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
	}
	h.onServerEnd(0)
	h.carryOut()
	c.queue = nil
	h.tellAt = time.Time{}
	return c
}

// newServerWithRoots is a host whose new server has asked for the roots of its client, and has them. A call waits.
func newServerWithRoots(t *testing.T) (h *host, c *client, says func(line string), stdin int) {
	t.Helper()
	h = newHost(t)
	h.o.WakeTimeout = enoughLooks * lookPause
	c = meet(t, h, `{"roots":{}}`, true)
	stdin, stdout := pipeServer(t, h)
	hears(h, c, waitingCall)
	h.carryOut()
	says = func(line string) {
		must(t)(unix.Write(stdout, []byte(line+"\n")))
		for h.turn(t) > 0 {
		}
	}
	says(`{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	says(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	hears(h, c, `{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}`)
	h.carryOut()
	return h, c, says, stdin
}

const waitingCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`

// enoughLooks is how often a server that takes long is looked at.
const enoughLooks = 3 * enoughRest

// look looks at the server as if its time had come. The host waits for that time.
func look(t *testing.T, h *host) {
	t.Helper()
	if h.timeout() < 0 {
		t.Fatal("it is never looked at again")
	}
	h.settling.lookAt = time.Now()
	h.carryOut()
}

// A new server gets its ping, its rest and another ping before the call that waits.
func TestNewServerRests(t *testing.T) {
	h, _, says, stdin := newServerWithRoots(t)
	gets := func(method string) {
		t.Helper()
		got := make([]byte, 64<<10)
		n, err := unix.Read(stdin, got)
		lines := strings.Split(strings.TrimSpace(string(got[:max(n, 0)])), "\n")
		if last := lines[len(lines)-1]; (method == "") != (err == unix.EAGAIN) || !strings.Contains(last, method) {
			t.Errorf("it gets %q, %v, want %q", last, err, method)
		}
	}
	gets(mcp.MethodPing)
	says(`{"jsonrpc":"2.0","id":4,"result":{}}`)
	for h.settling.rested < enoughRest-1 {
		gets("")
		look(t, h)
	}
	gets("")
	look(t, h)
	gets(mcp.MethodPing)
	says(`{"jsonrpc":"2.0","id":5,"result":{}}`)
	gets("tools/call")
	if h.settling != (settling{}) {
		t.Errorf("once it has settled: %+v", h.settling)
	}
}

// lookToTheEnd looks at the server until it has taken too long.
func lookToTheEnd(t *testing.T, h *host) {
	t.Helper()
	for h.server.out >= 0 {
		if h.settling.looks > enoughLooks {
			t.Fatal("it is not ended")
		}
		look(t, h)
	}
	if h.settling.looks < enoughLooks {
		t.Errorf("it is ended after %d looks", h.settling.looks)
	}
}

// One that takes too long is ended, and the call gets an error. The next one is not.
func TestNewServerTakesTooLong(t *testing.T) {
	h, c, says, _ := newServerWithRoots(t)
	lookToTheEnd(t, h)
	c.queue = nil
	says(`{"jsonrpc":"2.0","id":4,"result":{}}`) // It comes too late.
	h.onServerEnd(143)
	if len(c.queue) != 1 || !strings.Contains(string(c.queue[0].Line), "--wake-timeout") {
		t.Errorf("the client gets %q", fmt.Sprint(c.queue))
	}
	// The next one has its own time, even if it is started in the same step.
	hears(h, c, waitingCall)
	pipeServer(t, h)
	h.settling.lookAt = time.Time{}
	h.carryOut()
	if h.settling.looks >= enoughLooks || h.server.out < 0 {
		t.Errorf("the next server has been looked at %d times, its output is %d", h.settling.looks, h.server.out)
	}
}

// One that hangs in its handshake is ended as well, also if no client has roots. All calls that wait get errors. So they do
// if its session still waited for the last host's server, and says that it could not start. While the host ends, that is
// left to the server's session.
func TestNewServerThatDoesNotGreet(t *testing.T) {
	for _, code := range []int{143, exitFailure} {
		t.Run(strconv.Itoa(code), func(t *testing.T) { newServerThatDoesNotGreet(t, code) })
	}
}

func newServerThatDoesNotGreet(t *testing.T, code int) {
	t.Helper()
	h := newHost(t)
	h.o.WakeTimeout = enoughLooks * lookPause
	clients := []*client{meet(t, h, `{}`, false), connect(t, h)}
	h.greet(clients[1])
	hears(h, clients[1], helloLine)
	hears(h, clients[1], readyLine)
	for _, c := range clients {
		hears(h, c, waitingCall)
	}
	h.tellAt = time.Time{}
	pipeServer(t, h)
	h.carryOut()
	lookToTheEnd(t, h)
	h.onServerEnd(code)
	for _, c := range clients {
		if n := len(c.queue); n == 0 || !strings.Contains(string(c.queue[n-1].Line), "did not answer the handshake in time (--wake-timeout)") {
			t.Errorf("client %d gets %q", c.id, fmt.Sprint(c.queue))
		}
	}
	// The next one has its own time, unless the host ends first.
	h.server.notBefore = time.Time{}
	hears(h, clients[0], waitingCall)
	pipeServer(t, h)
	h.carryOut()
	if h.settling.looks == 0 || h.settling.looks >= enoughLooks {
		t.Errorf("the next server has been looked at %d times", h.settling.looks)
	}
	h.ending = true
	h.carryOut()
	if h.settling != (settling{}) || h.server.out < 0 {
		t.Errorf("while the host ends: %+v, its output is %d", h.settling, h.server.out)
	}
}
