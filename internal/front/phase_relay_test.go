package front

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
)

// The phase table and the relay together, without processes. The test plays a client and one server after another. Each
// server asks for the client's roots, and asks the client a question; all servers use the same ids. Over all orders of
// what they may do, up to a depth, these hold:
//
//   - no server gets a call before it has the client's roots.
//   - no server gets an answer to what another one has asked.
//   - no call reaches two servers, and none is answered twice.
//   - no call that is cancelled while it waits reaches a server.
//   - a server gets the answer to what it has asked, in whatever order the client answers.
//   - if all go on with what they have to do, each call is answered, by a server or with an error.
//
// It was seen to fail without the wait for roots (Mux.awaitsRoots), with ids of questions that are used again (server.renames),
// without the answer to calls of a server that is gone (Mux.lose), and with a first server that is not known to ask for roots
// (Published.Roots).
func TestPhaseModelWithRelay(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lazy %t", lazy), func(t *testing.T) {
			t.Parallel()
			explore(t, lazy)
		})
	}
}

// explore tries all orders of moves, from a server that has the roots or, if lazy, from a client that was told what an earlier
// session saw.
func explore(t *testing.T, lazy bool) {
	depth := 7
	switch {
	case testkit.Rounds(7) > 7 && !underRace: // a run with all its rounds
		depth = 10
	case testing.Short(), underRace:
		depth = 5
	}
	before := descriptors(t)
	seen := map[string]bool{}
	paths := [][]string{nil}
	reached := map[phase]bool{}
	for len(paths) > 0 {
		path := paths[0]
		paths = paths[1:]
		for _, move := range moves {
			next := append(slices.Clone(path), move)
			s := newScene(t, next, lazy)
			possible := s.play()
			key := s.key()
			if possible && !seen[key] {
				seen[key], reached[s.phase] = true, true
				if len(next) < depth {
					paths = append(paths, next)
				}
				s.finish()
			}
			s.close()
			if t.Failed() {
				return
			}
		}
	}
	for _, want := range []phase{awake, falling, asleep, waking} {
		if !reached[want] && !(lazy && depth < 10) { // A lazy server falls asleep, or crashes, after more moves.
			t.Errorf("phase %v is never reached", want)
		}
	}
	t.Logf("%d states", len(seen))
	if n := descriptors(t); n > before+100 {
		t.Errorf("%d descriptors are open, %d were", n, before)
	}
}

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// moves are what client, server and time can do.
var moves = []string{"call", "cancel", "idle", "gone", "serve", "ask roots", "give roots", "settle", "reply", "ask", "answer", "answer last", "refuse"}

// scene is a session and those who talk through it.
type scene struct {
	t        *testing.T
	path     []string
	phase    phase
	fall     fall
	relay    *relay.Relay
	toClient relay.Stream
	// toRelay and fromRelay are the client's ends, in and out those of the server.
	toRelay, fromRelay, in, out int
	fds                         []int
	// settled says that the server that wakes has come to rest.
	settled bool
	server  actor
	// calls are the client's calls, questions those that it has not answered yet, and wanted the open requests for its
	// roots.
	calls             []played
	questions, wanted []asked
}

// actor is a server.
type actor struct {
	generation                        int
	alive, welcomed, initialized      bool
	init, askedRoots, hasRoots, asked bool
	pings                             []json.RawMessage
}

type played struct {
	server, answers int
	cancelled       bool
}

type asked struct {
	id         json.RawMessage
	generation int
}

const roomy = 1 << 20

const (
	greeting = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}}}}`
	reply    = `{"protocolVersion":"2025-11-25","capabilities":{}}`
	greeted  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func newScene(t *testing.T, path []string, lazy bool) *scene {
	t.Helper()
	s := &scene{t: t, path: path, phase: awake}
	var up, down [2]int
	s.must(unix.Pipe2(up[:], unix.O_CLOEXEC))
	s.must(unix.Pipe2(down[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	s.fds = append(s.fds, up[0], up[1], down[0], down[1])
	s.toRelay, s.fromRelay = up[1], down[0]
	s.toClient = relay.WriteEnd(down[1])
	s.relay = relay.New(relay.ReadEnd(up[0]), s.toClient, roomy, time.Now())
	if lazy {
		s.phase = asleep
		known := mux.Published{Answers: map[string]mux.Answer{"initialize": {Text: json.RawMessage(`{"result":` + reply + `}`)}}, Roots: true}
		s.relay.Cache(func([]byte) mux.Published { return known }, func([]byte, *mux.Published) {})
		s.relay.Disconnect("")
		s.say(s.toRelay, greeting)
		s.say(s.toRelay, greeted)
		if s.phase != asleep {
			s.fail("a greeting starts a server")
		}
		return s
	}
	s.connect()
	// The first server has the roots before the first call.
	s.say(s.toRelay, greeting)
	s.say(s.out, `{"jsonrpc":"2.0","id":"i","result":`+reply+`}`)
	s.say(s.toRelay, greeted)
	s.server.init, s.server.welcomed = false, true
	for _, move := range []string{"ask roots", "give roots"} {
		if !s.do(move) {
			t.Fatalf("the first server cannot %s", move)
		}
	}
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%v: %v", s.path, err)
	}
}

func (s *scene) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("%v: %s", s.path, fmt.Sprintf(format, args...))
}

func (s *scene) connect() {
	var child proc.Child
	done, err := s.relay.Connect(&child)
	s.must(err)
	in, err := unix.FcntlInt(uintptr(child.Stdin), unix.F_DUPFD_CLOEXEC, 0)
	s.must(err)
	out, err := unix.FcntlInt(uintptr(child.Stdout), unix.F_DUPFD_CLOEXEC, 0)
	s.must(err)
	done()
	s.must(unix.SetNonblock(in, true))
	s.in, s.out = in, out
	s.server = actor{generation: s.server.generation + 1, alive: true}
}

// letGo ends the server.
func (s *scene) letGo() {
	if s.server.alive {
		_, _ = unix.Close(s.in), unix.Close(s.out)
		s.server.alive = false
	}
}

func (s *scene) close() {
	s.letGo()
	s.relay.EndServer()
	s.relay.Disconnect("")
	for range 10 { // Without a server the relay closes its stream once that has ended. It has room for what is passed on.
		fds := s.relay.Polls()
		proc.Poll(fds[:], 0)
		s.relay.Move(fds)
	}
	s.toClient.Close()
	for _, fd := range s.fds {
		_ = unix.Close(fd)
	}
}

// say writes a line and settles.
func (s *scene) say(fd int, line string) {
	_, err := unix.Write(fd, []byte(line+"\n"))
	s.must(err)
	s.settle()
}

// settle lets the relay work and both sides read, until nothing is left to do.
func (s *scene) settle() {
	for range 1000 {
		fds := s.relay.Polls()
		n := proc.Poll(fds[:], 0)
		events := s.relay.Move(fds)
		s.on(events)
		s.serverReads()
		s.clientReads()
		if n == 0 && len(events) == 0 {
			return
		}
	}
	s.fail("the relay never waits")
}

// on acts on the relay's events as a front does.
func (s *scene) on(events []relay.Event) {
	for _, e := range events {
		switch e.Kind {
		case relay.ClientWrote:
			s.change(onMessage)
		case relay.Answered:
			s.change(onAnswered)
		case relay.Restored:
			s.change(onRestored)
		case relay.Unasked:
			s.change(onUnasked)
		case relay.RestoreFailed:
			s.change(onFailed)
		case relay.ServerClosed:
			if s.phase == awake {
				s.change(onCrash)
			}
		case relay.Dropped:
		default:
			s.fail("event %v", e)
		}
	}
}

// change gives an event to the table, and does with the relay what a front does.
func (s *scene) change(ev event) {
	switch s.phase.step(ev) {
	case letFall:
		s.fall = ev.because()
		s.relay.EndServer()
	case forget:
		s.relay.Disconnect("ended")
		if s.fall == unfit {
			s.on(s.relay.Refuse("no server"))
		}
	case wake:
		s.connect()
		s.settled = false
		s.on(s.relay.Restore())
	case refuseWaiting:
		s.relay.Disconnect("no server")
		s.on(s.relay.Refuse("no server"))
	case resume, carryOn, end:
	}
}

// play does all moves of the path, and reports whether the last is possible.
func (s *scene) play() (possible bool) {
	for _, move := range s.path {
		possible = s.do(move)
		if !possible || s.t.Failed() {
			return possible
		}
	}
	return possible
}

// do does one move, and reports whether it is possible.
func (s *scene) do(move string) bool {
	a := &s.server
	switch move {
	case "call":
		if len(s.calls) == 2 {
			return false
		}
		s.calls = append(s.calls, played{})
		s.say(s.toRelay, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, len(s.calls)))
	case "cancel":
		i := slices.IndexFunc(s.calls, func(c played) bool { return c.answers == 0 && !c.cancelled })
		if i < 0 {
			return false
		}
		s.calls[i].cancelled = true
		s.say(s.toRelay, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i+1))
	case "idle":
		if ok, _ := s.relay.MaySleep(); s.phase != awake || !ok {
			return false
		}
		s.change(onIdle)
		s.settle()
	case "gone":
		return s.gone()
	case "settle":
		if s.relay.Pause() == 0 || s.phase != waking {
			return false
		}
		s.settled = true
		s.on(s.relay.PauseOver())
		s.settle()
	case "give roots":
		if len(s.wanted) == 0 {
			return false
		}
		w := s.wanted[0]
		s.wanted = s.wanted[1:]
		s.say(s.toRelay, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[],"generation":%d}}`, w.id, w.generation))
	case "answer":
		return s.answer(0)
	case "answer last":
		return s.answer(len(s.questions) - 1)
	default:
		return a.alive && s.serverDoes(move)
	}
	return true
}

// answer has the client answer one of the questions that it has seen.
func (s *scene) answer(i int) bool {
	if i < 0 || i >= len(s.questions) {
		return false
	}
	q := s.questions[i]
	s.questions = slices.Delete(s.questions, i, i+1)
	s.say(s.toRelay, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","generation":%d}}`, q.id, q.generation))
	return true
}

// serverDoes does one move of the server, and reports whether it is possible.
func (s *scene) serverDoes(move string) bool {
	a := &s.server
	switch {
	case move == "serve" && a.init:
		a.init, a.welcomed = false, true
		s.say(s.out, `{"jsonrpc":"2.0","id":"i","result":`+reply+`}`)
	case move == "serve" && len(a.pings) > 0:
		id := a.pings[0]
		a.pings = a.pings[1:]
		s.say(s.out, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id))
	case move == "refuse" && a.init:
		a.init = false
		s.say(s.out, `{"jsonrpc":"2.0","id":"i","error":{"code":1,"message":"not today"}}`)
	case move == "ask roots" && a.initialized && !a.askedRoots:
		a.askedRoots = true
		s.say(s.out, fmt.Sprintf(`{"jsonrpc":"2.0","id":"r","method":"roots/list","params":{"generation":%d}}`, a.generation))
	case move == "ask" && a.initialized && !a.asked:
		a.asked = true
		s.say(s.out, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"generation":%d}}`, a.generation))
	case move == "reply":
		i := slices.IndexFunc(s.calls, func(c played) bool { return c.server == a.generation && c.answers == 0 })
		if i < 0 {
			return false
		}
		s.say(s.out, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i+1))
	default:
		return false
	}
	return true
}

// gone ends the server: because it is being ended, or because it crashes. After a crash the rest of its session ends in a move
// of its own.
func (s *scene) gone() bool {
	switch {
	case s.phase == falling && s.fall == crash:
		s.change(onGone)
		s.settle() // The client is listened to again once the open calls are answered.
		s.settle()
		return true
	case !s.server.alive, s.phase == awake && s.relay.Unrestorable() != "":
		return false
	}
	served := s.phase == awake
	s.letGo()
	s.settle()
	switch {
	case !served:
		s.change(onGone)
	case s.phase == awake: // The end of the session behind was seen before that of the stream.
		s.change(onCrash)
	}
	s.settle()
	return true
}

// message has those parts of a message that the test looks at.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Generation int
		RequestID  json.RawMessage
	}
	Result *struct{ Generation int }
	Error  *struct{}
}

// read gives the messages that have come.
func (s *scene) read(fd int) (all []message) {
	buf := make([]byte, 64<<10)
	n, err := unix.Read(fd, buf)
	if err != nil || n <= 0 {
		return nil
	}
	for line := range bytes.Lines(buf[:n]) {
		var m message
		s.must(json.Unmarshal(line, &m))
		all = append(all, m)
	}
	return all
}

func (s *scene) serverReads() {
	a := &s.server
	if !a.alive {
		return
	}
	for _, m := range s.read(s.in) {
		switch {
		case m.Method == "initialize":
			a.init = true
		case m.Method == "notifications/initialized":
			a.initialized = true
		case m.Method == "notifications/cancelled":
		case m.Method == "ping":
			a.pings = append(a.pings, m.ID)
		case m.Method == "tools/call":
			s.serverIsCalled(m)
		case m.Result != nil && m.Result.Generation != a.generation:
			s.fail("server %d gets the answer to server %d", a.generation, m.Result.Generation)
		case string(m.ID) == `"r"` && a.askedRoots && !a.hasRoots:
			a.hasRoots = true
		case string(m.ID) == "0" && a.asked:
			a.asked = false
		default:
			s.fail("server %d gets %+v", a.generation, m)
		}
	}
}

func (s *scene) serverIsCalled(m message) {
	id := int(m.ID[0] - '0')
	if !s.server.hasRoots {
		s.fail("server %d judges call %d without the roots", s.server.generation, id)
	}
	if c := &s.calls[id-1]; c.cancelled {
		s.fail("call %d reaches server %d although it is cancelled", id, s.server.generation)
	} else if c.server != 0 {
		s.fail("call %d reaches server %d and %d", id, c.server, s.server.generation)
	} else {
		c.server = s.server.generation
	}
}

func (s *scene) clientReads() {
	for _, m := range s.read(s.fromRelay) {
		switch {
		case m.Method == "elicitation/create":
			s.questions = append(s.questions, asked{m.ID, m.Params.Generation})
		case m.Method == "roots/list":
			s.wanted = append(s.wanted, asked{m.ID, m.Params.Generation})
		case m.Method == "notifications/cancelled":
			// A client may have answered already, so it answers a cancelled question all the same.
		case m.Method == "" && string(m.ID) == `"i"` && s.server.generation <= 1:
		case m.Method == "" && len(m.ID) == 1 && int(m.ID[0]-'0') <= len(s.calls):
			c := &s.calls[m.ID[0]-'1']
			if c.answers++; c.answers > 1 {
				s.fail("call %s is answered again", m.ID)
			}
		default:
			s.fail("the client gets %+v", m)
		}
	}
}

// finish lets client and server do all that they still have to do, and checks that each call has its answer.
func (s *scene) finish() {
	for range 60 {
		if s.phase == falling {
			s.do("gone")
			continue
		}
		if !slices.ContainsFunc([]string{"serve", "ask roots", "give roots", "settle", "reply", "answer"}, s.do) {
			break
		}
	}
	for i, c := range s.calls {
		if c.answers != 1 && !c.cancelled {
			s.fail("in the end call %d has %d answers, phase %v, server %+v", i+1, c.answers, s.phase, s.server)
		}
	}
	if s.phase == awake && s.server.asked {
		s.fail("in the end server %d has no answer", s.server.generation)
	}
	if s.phase != awake && s.phase != asleep {
		s.fail("in the end in phase %v: %s", s.phase, s.relay.Lacks())
	}
}

// key is what tells one state from another. Which generation it is hardly matters, only what belongs to an older one.
func (s *scene) key() string {
	a := s.server
	old := func(all []asked) (out []string) {
		for _, q := range all {
			out = append(out, fmt.Sprint(string(q.id), q.generation == a.generation))
		}
		return out
	}
	calls := slices.Clone(s.calls)
	for i := range calls {
		if calls[i].server != a.generation {
			calls[i].server = min(calls[i].server, 1)
		} else {
			calls[i].server = 2
		}
	}
	pings := len(a.pings)
	a.generation, a.pings = min(a.generation, 3), nil
	return fmt.Sprint(s.phase, a, pings, s.fall, s.relay.Pause(), s.settled, calls, old(s.questions), old(s.wanted))
}
