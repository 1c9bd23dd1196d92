package front

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// The host of a shared server answers what a dead server leaves open, and starts the next one. The server's session leaves
// both to the host, unless the handshake is finished and nothing is open, or there is none.
func TestTheHostAnswersForASharedServer(t *testing.T) {
	const (
		hello  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}` + "\n"
		met    = `{"jsonrpc":"2.0","id":0,"result":{}}` + "\n"
		ready  = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
		call   = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}` + "\n"
		answer = `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}` + "\n"
		listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}` + "\n"
		agreed = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{}}}` + "\n"
		ended  = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n"
	)
	for name, c := range map[string]struct {
		lines    []string
		restarts bool
	}{
		"nothing said":               {lines: nil},
		"initialize unanswered":      {lines: []string{hello}},
		"handshake unfinished":       {lines: []string{hello, met}},
		"nothing open":               {lines: []string{hello, met, ready}, restarts: true},
		"call open":                  {lines: []string{hello, met, ready, call}},
		"half a call":                {lines: []string{hello, met, ready, call[:10]}},
		"call answered":              {lines: []string{hello, met, ready, call, answer}, restarts: true},
		"no handshake":               {lines: []string{call, answer, call}, restarts: true},
		"no handshake, and then one": {lines: []string{call, answer, hello}},
		"subscribed":                 {lines: []string{listen, agreed}, restarts: true},
		"unsubscribed":               {lines: []string{listen, agreed, ended}, restarts: true},
		"subscribed, half greeted":   {lines: []string{listen, agreed, hello, met}},
		"not subscribed":             {lines: []string{listen}},
	} {
		t.Run(name, func(t *testing.T) {
			f, says, hears := conversation(t)
			f.o.OnCrash, f.o.Share = OnCrashRestart, "place"
			for _, line := range c.lines {
				says(line)
			}
			f.onBackendEnd(1)
			if restarts := f.phase == asleep; restarts != c.restarts || restarts != (f.cause == noCause) {
				t.Fatalf("phase %v, cause %v", f.phase, f.cause)
			}
			if c.restarts {
				return
			}
			f.flush()
			if got := hears(); strings.Contains(got, "mcp-tether") {
				t.Errorf("the host gets %q", got)
			}
		})
	}
}

// conversation is a front with a client and a server: says passes a line of either, and hears is what the client gets.
func conversation(t *testing.T) (f *front, says func(line string), hears func() string) {
	t.Helper()
	f, toRelay, fromRelay := withClient(t, awake)
	var child proc.Child
	closeTheirs, err := f.relay.Connect(&child)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeTheirs)
	says = func(line string) {
		t.Helper()
		to := toRelay
		if strings.Contains(line, `"result"`) || strings.Contains(line, "acknowledged") {
			to = child.Stdout
		}
		if _, err := unix.Write(to, []byte(line)); err != nil {
			t.Fatal(err)
		}
		copyOnce(f)
		copyOnce(f)
	}
	hears = func() string {
		got := make([]byte, 64<<10)
		if err := unix.SetNonblock(fromRelay, true); err != nil {
			t.Fatal(err)
		}
		n, _ := unix.Read(fromRelay, got)
		return string(got[:max(n, 0)])
	}
	return f, says, hears
}
