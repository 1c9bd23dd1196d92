package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// A server with nothing to do sleeps, and nobody notices. The server is the fixture's that speaks MCP and writes down
// what it receives, see fixture/mcp.go; the client is the test.

// limit is the idle time of the sessions here. It is short, so that they sleep soon, but not so short that a busy
// machine takes it between two messages. What must find a server awake keeps it so by a call.
const limit = 500 * time.Millisecond

// sleepy are the flags of a session that sleeps soon.
func sleepy(flags ...string) []string {
	return append(polite("--hibernate="+limit.String(), "--log-level=debug"), flags...)
}

// mcpSession starts the fixture as an MCP server, as a further server of the gateway.
func (g *gateway) mcpSession(with setup, root string, children ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.Spawn(with, append([]string{fixture, "mcp", s.Dir, "-", "0", root}, children...)...)
	return s
}

// greeted starts a gateway with one server that has met its client.
func greeted(t *testing.T, with setup, root string, children ...string) *session {
	t.Helper()
	s := startGateway(t).mcpSession(with, root, children...)
	s.greet()
	s.IDs = s.Records()
	return s
}

const (
	version       = "2025-11-25"
	initialized   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	release       = `{"jsonrpc":"2.0","method":"test/release"}`
	stateless     = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	cancelRequest = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`
)

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{"roots":{},"sampling":{},"elicitation":{}},"clientInfo":{"name":"test","version":"0"}}}`
}

func toolCall(id int, name, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, id, name, text)
}

// greet is the handshake.
func (s *session) greet() {
	s.t.Helper()
	s.wantAnswer(s.Ask(initialize(version)), 0)
	s.Write(initialized + "\n")
}

// greetHeld is the handshake with a call right behind it, which keeps the server awake until it is let go. So what a
// test asks meanwhile is all said to the first server, however busy the machine is.
func (s *session) greetHeld(id int) {
	s.t.Helper()
	s.wantAnswer(s.Ask(initialize(version)), 0)
	s.Write(initialized + "\n" + toolCall(id, "hold", "") + "\n")
	s.untilHeld(id)
}

// reply is an answer of the server, or of the wrapper in its place.
type reply struct {
	ID     *int
	Method string
	Error  *struct {
		Code    int
		Message string
	}
	Result json.RawMessage
}

func (s *session) parse(line string) reply {
	s.t.Helper()
	var r reply
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		s.t.Fatalf("instead of a message the client got %q: %v", line, err)
	}
	return r
}

// wantAnswer expects a result for the request.
func (s *session) wantAnswer(line string, id int) {
	s.t.Helper()
	if r := s.parse(line); r.ID == nil || *r.ID != id || r.Error != nil || r.Result == nil {
		s.t.Fatalf("want the answer to %d, got %s", id, line)
	}
}

// wantError expects that the request was answered with an error that says why.
func (s *session) wantError(line string, id int, why string) {
	s.t.Helper()
	r := s.parse(line)
	if r.ID == nil || *r.ID != id || r.Error == nil || r.Error.Code != -32603 || !strings.Contains(r.Error.Message, why) || r.Result != nil {
		s.t.Fatalf("want an error for %d that says %q, got %s", id, why, line)
	}
}

// hold begins a call that keeps the server awake until it is released, and returns when the server has it.
func (s *session) hold(id int) {
	s.t.Helper()
	s.Write(toolCall(id, "hold", "") + "\n")
	s.untilHeld(id)
}

func (s *session) untilHeld(id int) {
	s.t.Helper()
	s.until("held", func() bool { got := s.got(); return got[len(got)-1] == toolCall(id, "hold", "") })
}

// letGo ends that call.
func (s *session) letGo(id int) {
	s.t.Helper()
	s.wantAnswer(s.Ask(release), id)
}

// echo calls a tool, and expects the answer.
func (s *session) echo(id int) {
	s.t.Helper()
	s.wantAnswer(s.Ask(toolCall(id, "echo", "hello")), id)
}

// sleeper is the part of a record that tells about sleep.
type sleeper struct {
	State         string
	Sleeps, Wakes int
	Restarts      int
	Server        struct{ PID int }
	Behind        string
	Sleepless     string
}

func (s *session) sleeper() sleeper {
	var r, behind sleeper
	for _, id := range s.Records() {
		var one sleeper
		_ = json.Unmarshal([]byte(s.rawRecord(id)), &one)
		if one.Behind == "" {
			r = one
		} else {
			behind = one
		}
	}
	r.Server = behind.Server
	return r
}

// asleep waits until the server sleeps for the nth time. That is exact only if the client has said one thing since the
// last sleep: between two, a busy machine may take the idle time.
func (s *session) asleep(n int) {
	s.t.Helper()
	s.until(fmt.Sprintf("asleep for the %d. time", n), func() bool { r := s.sleeper(); return r.State == "asleep" && r.Sleeps == n })
}

// until waits for something that the record, the log, or a file of the server's tells of.
func (s *session) until(what string, is func() bool) {
	s.t.Helper()
	testkit.Until(s.t, what, is)
}

// got is what the servers of the session have received, and their starts, in order.
func (s *session) got() []string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "got"))
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// gotOf is what the nth server has received.
func (s *session) gotOf(n int) []string {
	s.t.Helper()
	var out []string
	for _, line := range s.got() {
		if strings.HasPrefix(line, "start ") {
			n--
			continue
		}
		if n == 0 {
			out = append(out, line)
		}
	}
	return out
}

// starts counts the servers that have been started.
func (s *session) starts() int {
	return len(slices.DeleteFunc(s.got(), func(line string) bool { return !strings.HasPrefix(line, "start ") }))
}

// lastServer is the pid of the last one that was started. The record may not name it yet.
func (s *session) lastServer() int {
	s.t.Helper()
	pid := 0
	for _, line := range s.got() {
		if word, found := strings.CutPrefix(line, "start "); found {
			pid = number(s.t, word)
		}
	}
	if pid == 0 {
		s.t.Fatal("no server has been started")
	}
	return pid
}

// mode sets what the next server is like.
func (s *session) mode(words string) {
	s.t.Helper()
	s.ok(os.WriteFile(filepath.Join(s.Dir, "mode"), []byte(words), 0o666))
}

// farewell ends the session by the end of its standard input, and looks for anything left.
func (s *session) farewell() {
	s.t.Helper()
	s.closeStdin()
	wantExit(s.t, s.Wait(), "exit 0")
	s.Gone()
	// The server sees the end after the supervisor, which passes it on.
	s.EndedWhole("stdin-closed")
}

// whys are the reasons that the log gave for staying awake.
func (s *session) whys() []string {
	log, _ := os.ReadFile(s.Log)
	var out []string
	for line := range strings.Lines(string(log)) {
		var e struct{ Message, Why string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Message == "idle, but kept awake" {
			out = append(out, e.Why)
		}
	}
	return out
}

// The next servers are told what the first one was told to remember. No server is told the client's requests again.
func TestHibernateRestores(t *testing.T) {
	t.Parallel()
	s := startGateway(t).mcpSession(setup{Flags: sleepy()}, "serve", "daemon")
	s.greetHeld(50)
	s.IDs = s.Records()
	const level = `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`
	for i, request := range []string{
		level,
		`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:1"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"a:2"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"a:1"}}`,
		toolCall(5, "echo", "once"),
	} {
		s.wantAnswer(s.Ask(request), i+1)
	}
	s.letGo(50)
	for n := 1; n <= 2; n++ {
		s.asleep(n)
		s.Write(toolCall(10+n, "echo", "again") + "\n")
		// The resource may have changed meanwhile.
		if r := s.Read(); !strings.Contains(r, `"notifications/resources/updated","params":{"uri":"a:2"}`) {
			t.Errorf("before the answer the client got %s", r)
		}
		s.wantAnswer(s.Read(), 10+n)
		s.wantRestored(n+1, 10+n)
	}
	s.farewell()
}

// wantRestored looks at what the nth server was told: the handshake, the level, the subscription, and then what woke it.
func (s *session) wantRestored(n, id int) {
	s.t.Helper()
	got := s.gotOf(n)
	if len(got) != 5 || got[0] != initialize(version) || got[1] != initialized || got[4] != toolCall(id, "echo", "again") {
		s.t.Fatalf("the %d. server got %q", n, got)
	}
	var level, subscribe struct {
		ID     json.RawMessage
		Method string
		Params map[string]string
	}
	s.ok(json.Unmarshal([]byte(got[2]), &level))
	s.ok(json.Unmarshal([]byte(got[3]), &subscribe))
	if level.Method != "logging/setLevel" || level.Params["level"] != "error" || len(level.ID) == 0 || string(level.ID) == string(subscribe.ID) ||
		subscribe.Method != "resources/subscribe" || subscribe.Params["uri"] != "a:2" {
		s.t.Errorf("the %d. server got %q", n, got)
	}
}

// Messages that arrive at the moment when the server falls asleep are neither lost nor sent twice nor in another order.
func TestHibernateRaces(t *testing.T) {
	t.Parallel()
	for i, root := range []string{"serve", "serve,ignore-eof"} {
		t.Run(root, func(t *testing.T) {
			sample(t, 2)
			t.Parallel()
			// So short that many rounds meet the moment, and one does at least.
			r := race{seed: newSeed(t), idle: 15 * time.Millisecond, by: time.Now().Add(testkit.Patience)}
			with := setup{Stdio: stdios[i], Flags: []string{"--hibernate=" + r.idle.String(), "--eof-grace=5ms", "--term-grace=20s"}}
			r.s = greeted(t, with, root)
			r.sent = []string{initialize(version), initialized}
			for n := 0; n < testkit.Rounds(10) || r.s.sleeper().Wakes == 0 && !r.late(); n++ {
				r.round()
			}
			r.check()
		})
	}
}

type race struct {
	seed
	s    *session
	idle time.Duration
	by   time.Time
	id   int
	sent []string // all that the client has sent, in order
}

func (r *race) late() bool { return time.Now().After(r.by) }

// round waits until about the moment at which the server falls asleep, and sends some messages, one of them perhaps in
// two parts.
func (r *race) round() {
	r.s.t.Helper()
	pause(r.between(r.idle*8/10, r.idle*2))
	first := r.id + 1
	for range 1 + r.IntN(3) {
		if r.IntN(4) == 0 {
			r.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"test/note","params":{"after":%d}}`, r.id))
		}
		r.id++
		r.send(toolCall(r.id, "echo", "race"))
		if r.IntN(3) == 0 {
			pause(r.between(0, 4*time.Millisecond))
		}
	}
	for id := first; id <= r.id; id++ {
		r.s.wantAnswer(r.s.Read(), id)
	}
}

func (r *race) send(message string) {
	r.s.t.Helper()
	r.sent = append(r.sent, message)
	cut := len(message)
	if r.IntN(4) == 0 {
		cut = r.IntN(len(message))
	}
	r.s.Write(message[:cut])
	if cut < len(message) {
		pause(r.between(0, 3*time.Millisecond))
	}
	r.s.Write(message[cut:] + "\n")
}

// check looks at what the servers have received: with the replayed handshakes left out, what was sent.
func (r *race) check() {
	r.s.t.Helper()
	var got []string
	for n := range r.s.starts() {
		lines := r.s.gotOf(n + 1)
		if n > 0 {
			if len(lines) < 2 || lines[0] != initialize(version) || lines[1] != initialized {
				r.s.t.Fatalf("the %d. server got %q", n+1, lines)
			}
			lines = lines[2:]
		}
		got = append(got, lines...)
	}
	for i := range max(len(got), len(r.sent)) {
		if i >= len(got) || i >= len(r.sent) || got[i] != r.sent[i] {
			r.s.t.Fatalf("message %d of %d: %q was sent, and %q received", i, len(r.sent), r.sent[i:min(i+3, len(r.sent))], got[i:min(i+3, len(got))])
		}
	}
	now := r.s.sleeper()
	r.s.t.Logf("%d requests, %d sleeps, %d wakes, %d servers", r.id, now.Sleeps, now.Wakes, r.s.starts())
	if now.Wakes == 0 {
		r.s.t.Error("the moment was not met")
	}
	r.s.closeStdin()
	if rest := r.s.ReadToEnd(); rest != "" {
		r.s.t.Errorf("more answers than questions: %q", rest)
	}
	// Asleep, or quicker than the grace of 5 ms; else ended by SIGTERM.
	wantExit(r.s.t, r.s.Wait(), "exit 0", "exit 143")
	r.s.Gone()
}
