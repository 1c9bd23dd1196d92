package mux

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/mcp"
)

// The model: clients, a server and a host that act at random, each with its own account of what it has said and heard.
// The accounts are checked against each other at every line, and once more when all has been answered. The side that
// begins an exchange writes into its messages what they are about. So nothing here rests on how the mux finds that out.

// wire is any message, as JSON reads it.
type wire struct {
	ID     json.RawMessage
	Method string
	Params *struct {
		M, Level, URI, TaskID string
		Task                  *struct{}
		RequestID             json.RawMessage
		ProgressToken         json.RawMessage
		Meta                  *struct {
			ProgressToken json.RawMessage
			Task          *struct{ TaskID string } `json:"io.modelcontextprotocol/related-task"`
			Listen        json.RawMessage          `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	Result *struct {
		M     string
		Task  *struct{ TaskID string }
		Tasks []struct{ TaskID string }
		Meta  *struct {
			Listen json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	Error *struct {
		Code    int
		Message string
	}
}

// simCall is a request of a client: of whom, what it says of itself, and its token.
type simCall struct {
	mark, method, token, target string
}

type simClient struct {
	id                Client
	asked, met, ready bool
	roots             bool // has roots, and says so in its handshake
	open              map[string]simCall
	level             int
	levels            int // setLevel requests that are open
	subscribed        map[string]bool
	pending           map[string]int    // requests about a resource that are open
	latest            map[string]string // the last such request, by its mark: answers may come in another order
	tasks             map[string]bool
	asks              map[string]string
	// cancelled are calls that it has given up, stale what was taken back that it was asked, and acked its subscriptions that a
	// server has acknowledged (2026-07-28).
	cancelled, stale, acked map[string]bool
}

type simRequest struct {
	n                           string
	mark, method, token, target string
	client                      Client
	cancelled, own, task        bool
}

type simServer struct {
	inbox              [][]byte
	initialized, asked bool
	open               []*simRequest
	seen               map[string]bool
	level              int
	subscribed         map[string]bool
	tasks              map[string]Client
	running            map[string]bool
	asks               map[string]string
	count              int
	rootsDue           bool // it is to ask for roots
	rootsOf            Client
	takenBack          bool // its first request is
}

type world struct {
	r       *rand.Rand
	m       *Mux
	clients map[Client]*simClient
	server  *simServer
	next    Client
	marks   int
	tasks   int
	trace   []string
	failed  string
	modern  bool // no handshake
	// alone: there is one client, and lines pass as they are. deaths says how often a server dies.
	alone  bool
	deaths int
	fault  func(*Mux)
	// asksRoots: the server asks for roots as soon as it is initialized, and again when they have changed.
	asksRoots bool
	// rootful: the clients have roots. They all begin alike.
	rootful bool
	spoil   func(Out) []Out
}

func (w *world) fail(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf(format, args...)
	}
}

func (w *world) note(who, line string) {
	w.trace = append(w.trace, who+" "+strings.TrimSuffix(line, "\n"))
}

// spellings are ids and tokens that clients use, all at the same time.
func spellings() []string {
	return []string{"1", `"1"`, "2", "1.5", "-1", "9007199254740993", `"a"`, `"\u00e9\""`, "3", "4"}
}

func uris() []string { return []string{"file:///a", "file:///b"} }

// deliver takes what the mux says.
func (w *world) deliver(outs []Out) {
	// The lines stay as they are when the mux goes on, though the list does not.
	outs = slices.Clone(outs)
	if w.spoil != nil {
		var spoilt []Out
		for _, o := range outs {
			spoilt = append(spoilt, w.spoil(o)...)
		}
		outs = spoilt
	}
	for _, o := range outs {
		if len(o.Line) == 0 || o.Line[len(o.Line)-1] != '\n' || !json.Valid(o.Line) {
			w.fail("no line: %q", o.Line)
		}
		if o.To == Server {
			w.note("  ->s", string(o.Line))
			if w.server == nil {
				w.fail("a line for a server that is not there: %s", o.Line)
				continue
			}
			w.server.inbox = append(w.server.inbox, o.Line)
			continue
		}
		w.note(fmt.Sprintf("  ->%d", o.To), string(o.Line))
		c := w.clients[o.To]
		if c == nil {
			w.fail("a line for a client that has left: %s", o.Line)
			continue
		}
		w.hear(c, o.Line)
	}
	for _, c := range w.clients {
		if n := w.m.Open(c.id); n != len(c.open) {
			w.fail("client %d: %d are open by the mux, and it waits for %v", c.id, n, c.open)
		}
	}
}

func (w *world) hear(c *simClient, line []byte) {
	var msg wire
	if err := json.Unmarshal(line, &msg); err != nil {
		w.fail("client %d: %v: %s", c.id, err, line)
		return
	}
	switch {
	case msg.Method == "" && string(msg.ID) == "null":
	case msg.Method == "":
		w.answered(c, msg)
	case msg.ID != nil:
		w.askedOf(c, msg)
	default:
		w.told(c, msg)
	}
}

func (w *world) answered(c *simClient, msg wire) {
	id := string(msg.ID)
	call, ok := c.open[id]
	if !ok {
		if w.alone && c.cancelled[id] {
			return
		}
		w.fail("client %d: an answer to no question: %s", c.id, id)
		return
	}
	delete(c.open, id)
	w.applied(c, call, msg)
	if msg.Result != nil && msg.Result.M != "" && msg.Result.M != call.mark {
		w.fail("client %d: the answer to %s came as that to %s", c.id, msg.Result.M, call.mark)
	}
}

// lost reports whether a call was answered because its server has ended.
func lost(msg wire) bool { return msg.Error != nil && msg.Error.Message == "it ended" }

func (w *world) applied(c *simClient, call simCall, msg wire) {
	good := msg.Error == nil
	if good && call.method == "subscriptions/listen" && (msg.Result.Meta == nil || string(msg.Result.Meta.Listen) != string(msg.ID)) {
		w.fail("client %d: the subscription %s ends as another", c.id, msg.ID)
	}
	if call.method == "foreign" {
		if good || msg.Error.Code != mcp.CodeParams && msg.Error.Code != mcp.CodeInternal {
			w.fail("client %d got at the task of another", c.id)
		}
	}
	switch call.method {
	case "initialize":
		if s := w.server; good && s != nil && c.roots && s.rootsOf != 0 && s.rootsOf != c.id {
			w.fail("client %d may use a server that works with the roots of %d", c.id, s.rootsOf)
		}
		c.met = c.met || good
		if !good {
			c.asked, c.ready = false, c.ready && !w.alone
		}
	case "logging/setLevel":
		c.levels--
		switch {
		case good:
			c.level = levelNumber(call.target)
		case lost(msg): // Nobody knows whether it was set.
			c.level = w.m.client(c.id).level
		}
	case "resources/subscribe", "resources/unsubscribe":
		c.pending[call.target]--
		switch {
		case call.mark != c.latest[call.target]:
		case call.method == "resources/unsubscribe", !good:
			delete(c.subscribed, call.target)
		default:
			c.subscribed[call.target] = true
		}
	case "tasks/list":
		if good {
			for _, t := range msg.Result.Tasks {
				if w.server.tasks[t.TaskID] != c.id {
					w.fail("client %d sees the task %s", c.id, t.TaskID)
				}
			}
		}
	}
	if good && msg.Result.Task != nil {
		c.tasks[msg.Result.Task.TaskID] = true
	}
}

func (w *world) askedOf(c *simClient, msg wire) {
	if msg.Params == nil || msg.Params.M == "" {
		w.fail("client %d is asked without a mark", c.id)
		return
	}
	if owner, _, _ := strings.Cut(msg.Params.M, "-"); owner != "" && owner != fmt.Sprint("c", c.id) {
		w.fail("client %d is asked for %s", c.id, msg.Params.M)
	}
	if c.asks[string(msg.ID)] != "" {
		w.fail("client %d: id %s of the server is used twice", c.id, msg.ID)
	}
	c.asks[string(msg.ID)] = msg.Params.M
	if msg.Method == "roots/list" {
		w.rootsAskedOf(c)
	}
}

// rootsAskedOf checks that no other client is there.
func (w *world) rootsAskedOf(c *simClient) {
	if w.server.rootsOf = c.id; len(w.clients) > 1 {
		w.fail("client %d is asked for its roots beside others", c.id)
	}
}

func (w *world) told(c *simClient, msg wire) {
	if p := msg.Params; w.alone && p != nil && (c.cancelled[string(p.RequestID)] && c.asks[string(p.RequestID)] == "" || p.Meta != nil && c.cancelled[string(p.Meta.Listen)]) {
		return // It comes late.
	}
	switch msg.Method {
	case "notifications/progress":
		for _, call := range c.open {
			if call.mark == msg.Params.M && call.token == string(msg.Params.ProgressToken) {
				return
			}
		}
		if w.alone { // It may be of a call that was cancelled.
			return
		}
		w.fail("client %d: progress of %s with token %s", c.id, msg.Params.M, msg.Params.ProgressToken)
	case "notifications/subscriptions/acknowledged":
		id := string(msg.Params.Meta.Listen)
		if call := c.open[id]; call.mark != msg.Params.M || c.acked[call.mark] {
			w.fail("client %d: acknowledged is %s for %s", c.id, msg.Params.M, id)
		}
		c.acked[msg.Params.M] = true
	case "notifications/tools/list_changed":
		if w.modern {
			call, open := c.open[string(msg.Params.Meta.Listen)]
			if !open || call.mark != msg.Params.M && (msg.Params.M != "" || w.deaths == 0) {
				w.fail("client %d: news of %s for %s", c.id, msg.Params.M, msg.Params.Meta.Listen)
			}
		}
	case "notifications/cancelled":
		if call := c.open[string(msg.Params.RequestID)]; w.modern {
			if call.method != "subscriptions/listen" {
				w.fail("client %d: the server cancels %s", c.id, msg.Params.RequestID)
			}
			delete(c.open, string(msg.Params.RequestID))
			return
		}
		if _, ok := c.asks[string(msg.Params.RequestID)]; !ok {
			if w.alone { // The answer is under way.
				return
			}
			w.fail("client %d: a request that it does not have is taken back: %s", c.id, msg.Params.RequestID)
		}
		c.stale[string(msg.Params.RequestID)] = true
		delete(c.asks, string(msg.Params.RequestID))
	case "notifications/message":
		level := levelNumber(msg.Params.Level)
		if c.levels == 0 && c.level > 0 && level < c.level {
			w.fail("client %d asked for level %d and gets %d", c.id, c.level, level)
		}
	case "notifications/resources/updated":
		if !c.subscribed[msg.Params.URI] && c.pending[msg.Params.URI] == 0 {
			w.fail("client %d is told of %s", c.id, msg.Params.URI)
		}
	case "notifications/tasks/status":
		if w.server.tasks[msg.Params.TaskID] != c.id {
			w.fail("client %d is told of task %s", c.id, msg.Params.TaskID)
		}
	}
}

// --- what clients do

func (w *world) say(c *simClient, line string) {
	w.note(fmt.Sprintf("%d", c.id), line)
	w.deliver(w.m.FromClient(c.id, []byte(line+"\n")))
}

// id is one that the client does not wait for. One that is alone uses none twice, as the protocol demands: nobody helps it.
func (w *world) id(c *simClient) string {
	if w.alone {
		w.marks++
		return fmt.Sprintf([]string{`"%d"`, `%d`, `%d.5`, `-%d`}[w.r.IntN(4)], w.marks)
	}
	all := spellings()
	for range 4 {
		id := all[w.r.IntN(len(all))]
		if _, used := c.open[id]; !used {
			return id
		}
	}
	w.marks++
	return strconv.Itoa(100 + w.marks)
}

func (w *world) mark(c *simClient) string {
	w.marks++
	return fmt.Sprintf("c%d-%d", c.id, w.marks)
}

// request makes a request of a client and puts it in the client's account.
func (w *world) request(c *simClient, method, params string, call simCall) string {
	id := w.id(c)
	call.mark, call.method = w.mark(c), method
	token := ""
	if w.r.IntN(2) == 0 {
		all := spellings()
		call.token = all[w.r.IntN(len(all))]
		token = fmt.Sprintf(`,"_meta":{"progressToken":%s}`, call.token)
	}
	if w.modern {
		token = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"` + strings.TrimPrefix(strings.Replace(token, `,"_meta":{`, ",", 1), "}")
		token = strings.TrimSuffix(token, "}") + "}"
	}
	name := method
	if method == "foreign" {
		name = "tasks/get"
	}
	c.open[id] = call
	if w.r.IntN(2) == 0 {
		return fmt.Sprintf(`{"jsonrpc":"2.0","params":{"m":"%s"%s%s},"method":"%s","id":%s}`, call.mark, params, token, name, id)
	}
	return fmt.Sprintf(` {"jsonrpc": "2.0", "id" :%s ,"method":"%s","params":{"m":"%s"%s%s}}`, id, name, call.mark, token, params)
}

func (w *world) clientActs(c *simClient) {
	if !c.asked {
		c.asked = true
		id := w.id(c)
		c.open[id] = simCall{method: "initialize"}
		line := strings.Replace(initialize, `"id":0`, `"id":`+id, 1)
		if c.roots {
			line = strings.Replace(line, `"capabilities":{}`, `"capabilities":{"roots":{"listChanged":true}}`, 1)
		}
		w.say(c, line)
		return
	}
	if !c.ready && (c.met || w.r.IntN(8) == 0) {
		c.ready = true
		w.say(c, ready)
		return
	}
	if w.server == nil && len(c.asks) > 0 {
		w.fail("client %d is asked by a server that is gone", c.id)
	}
	if len(c.stale) > 0 && w.r.IntN(4) == 0 { // It answers what was taken back.
		id := slices.Sorted(maps.Keys(c.stale))[0]
		delete(c.stale, id)
		w.say(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"m":"stale"}}`, id))
		return
	}
	if !c.met {
		if w.r.IntN(4) == 0 {
			w.garbage(c)
		}
		return
	}
	if w.modern && w.r.IntN(4) == 0 {
		w.say(c, w.request(c, "subscriptions/listen", "", simCall{}))
		return
	}
	n := w.r.IntN(24)
	switch early := w.server != nil && !w.server.initialized; { // A server asks for roots while it greets: that is rare.
	case early && len(c.asks) > 0 && w.r.IntN(2) == 0:
		n = 18
	case early && w.asksRoots && w.r.IntN(4) == 0:
		n = 22
	}
	if w.modern && n >= 11 { // The rest belongs to earlier versions.
		n = 21 + n%3
	}
	switch {
	case n < 8:
		w.say(c, w.request(c, "tools/call", "", simCall{}))
	case n < 9:
		w.say(c, w.request(c, "tools/call", `,"task":{}`, simCall{}))
	case n < 11:
		w.cancel(c)
	case n < 12:
		w.setLevel(c)
	case n < 15:
		w.watch(c)
	case n < 16:
		w.askTask(c)
	case n < 17:
		w.say(c, w.request(c, "tasks/list", "", simCall{}))
	case n < 18:
		w.say(c, w.request(c, "ping", "", simCall{}))
	case n < 20:
		w.answerAsk(c)
	case n < 22:
		w.say(c, `{"jsonrpc":"2.0","method":"notifications/x","params":{}}`)
	case n < 23 && c.roots:
		w.say(c, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	default:
		w.garbage(c)
	}
}

func (w *world) cancel(c *simClient) {
	ids := slices.Sorted(maps.Keys(c.open))
	if len(ids) == 0 {
		return
	}
	id := ids[w.r.IntN(len(ids))]
	call := c.open[id]
	keeps := call.method == "initialize" || call.target != "" && !w.alone // What changes the server is not cancelled.
	if w.alone && call.target != "" {
		return
	}
	if !keeps {
		delete(c.open, id)
		c.cancelled[id] = true
	}
	w.say(c, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
}

func (w *world) setLevel(c *simClient) {
	level := levels()[w.r.IntN(8)]
	c.levels++
	w.say(c, w.request(c, "logging/setLevel", fmt.Sprintf(`,"level":"%s"`, level), simCall{target: level}))
}

func (w *world) watch(c *simClient) {
	uri := uris()[w.r.IntN(2)]
	method := "resources/subscribe"
	if w.r.IntN(2) == 0 {
		method = "resources/unsubscribe"
	}
	c.pending[uri]++
	line := w.request(c, method, fmt.Sprintf(`,"uri":"%s"`, uri), simCall{target: uri})
	c.latest[uri] = fmt.Sprintf("c%d-%d", c.id, w.marks)
	w.say(c, line)
}

func (w *world) askTask(c *simClient) {
	if w.server == nil || len(w.server.tasks) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(w.server.tasks))
	id := ids[w.r.IntN(len(ids))]
	method := "tasks/get"
	if w.server.tasks[id] != c.id {
		method = "foreign"
	}
	w.say(c, w.request(c, method, fmt.Sprintf(`,"taskId":"%s"`, id), simCall{}))
}

func (w *world) answerAsk(c *simClient) {
	ids := slices.Sorted(maps.Keys(c.asks))
	if len(ids) == 0 {
		return
	}
	id := ids[w.r.IntN(len(ids))]
	mark := c.asks[id]
	delete(c.asks, id)
	if mark == "-roots" && (!c.roots || w.r.IntN(8) == 0) {
		w.say(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no roots"}}`, id))
		return
	}
	w.say(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"m":"%s","roots":[]}}`, id, mark))
}

// garbage is what must have no effect on others.
func (w *world) garbage(c *simClient) {
	if w.alone { // It passes.
		return
	}
	lines := []string{
		`hello`, `{`, `[]`, `{"id":1}`, `{'id':1,"method":"x"}`, `{"id":9999,"result":{}}`, `{"id":9998,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":55}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77,"requestId":55}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9997,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1"}}`,
		`[{"id":9996,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]`, `{"id":null,"method":"ping"}`,
	}
	w.say(c, lines[w.r.IntN(len(lines))])
}

// --- what the server does

func (w *world) tell(line string) {
	w.note("s", line)
	w.deliver(w.m.FromServer([]byte(line + "\n")))
}

func (w *world) serverActs() {
	s := w.server
	if len(s.inbox) > 0 && w.r.IntN(4) > 0 {
		w.serverReads()
		return
	}
	if !s.initialized {
		w.answersLate()
		return
	}
	if s.rootsDue {
		w.askRoots()
		return
	}
	if w.modern && w.r.IntN(3) == 0 {
		w.serverTellsListeners()
		return
	}
	switch n := w.r.IntN(12); {
	case w.modern && n >= 6 && n < 11: // Of earlier versions.
	case n < 5:
		w.serverAnswers()
	case n < 6:
		w.serverProgress()
	case n < 7:
		w.serverLogs()
	case n < 8:
		w.serverUpdates()
	case n < 10:
		w.serverAsks()
	case n < 11:
		w.tell(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	default:
		lines := []string{`noise`, `{"id":99999,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99999}}`,
			`{"jsonrpc":"2.0","id":"p","method":"ping"}`}
		if n := w.r.IntN(len(lines) + 1); n < len(lines) && !w.alone {
			w.tell(lines[n])
			return
		}
		if !w.alone || s.asks["1"] != "" {
			w.serverTakesBack("1")
		}
	}
}

// answersLate answers an initialize that waits while roots are asked for.
func (w *world) answersLate() {
	s := w.server
	if i := slices.IndexFunc(s.open, func(r *simRequest) bool { return r.method == "initialize" }); i >= 0 && w.r.IntN(8) == 0 {
		w.answer(i)
	}
}

// serverTakesBack cancels what the server asks. It still wants roots then.
func (w *world) serverTakesBack(id string) {
	s := w.server
	s.rootsDue = s.rootsDue || s.asks[id] == "-roots"
	s.takenBack = s.takenBack || s.asks[id] != ""
	delete(s.asks, id)
	w.tell(fmt.Sprintf(`{"method":"notifications/cancelled","params":{"requestId":%s}}`, id))
}

func (w *world) serverReads() {
	s := w.server
	line := s.inbox[0]
	s.inbox = s.inbox[1:]
	var msg wire
	if err := json.Unmarshal(line, &msg); err != nil {
		w.fail("the server cannot read %s", line)
		return
	}
	if !s.asked && !(w.alone && msg.Method == "notifications/initialized") && (msg.Method != "initialize" || msg.ID == nil) && msg.Method != "" && msg.Method != "ping" {
		w.fail("the server gets %s before initialize", line)
	}
	switch {
	case msg.Method == "":
		w.serverHearsAnswer(msg)
	case msg.ID != nil:
		w.serverHearsRequest(msg)
	case msg.Method == "notifications/initialized":
		if !s.asked && w.alone {
			return
		}
		if s.initialized || !s.asked {
			w.fail("notifications/initialized at the wrong time")
		}
		s.initialized = true
		w.rootsAreDue()
	case msg.Method == "notifications/roots/list_changed":
		w.rootsAreDue()
	case msg.Method == "notifications/cancelled":
		i := slices.IndexFunc(s.open, func(r *simRequest) bool { return r.n == string(msg.Params.RequestID) })
		if !s.seen[string(msg.Params.RequestID)] {
			w.fail("the server never had what is cancelled: %s", line)
		}
		if i >= 0 {
			s.open[i].cancelled = true
		}
	case msg.Method == "notifications/progress":
		w.fail("the server gets the progress of nothing: %s", line)
	}
}

// rootsAreDue has the server ask for roots, at once as a rule.
func (w *world) rootsAreDue() {
	if w.server.rootsDue = w.asksRoots; w.asksRoots && w.r.IntN(4) > 0 {
		w.askRoots()
	}
}

func (w *world) askRoots() {
	s := w.server
	s.rootsDue = false
	s.count++
	id := strconv.Itoa(s.count)
	s.asks[id] = "-roots" // Of no call.
	w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"roots/list","params":{"m":"-roots"}}`, id))
}

func (w *world) serverHearsAnswer(msg wire) {
	mark, ok := w.server.asks[string(msg.ID)]
	if string(msg.ID) == `"p"` || string(msg.ID) == "1" && w.server.takenBack {
		return
	}
	if !ok {
		w.fail("the server hears an answer to no question: %s", msg.ID)
	}
	delete(w.server.asks, string(msg.ID))
	if msg.Result != nil && msg.Result.M != mark {
		w.fail("the server asked %s and hears %s", mark, msg.Result.M)
	}
}

func (w *world) serverHearsRequest(msg wire) {
	s := w.server
	n := string(msg.ID)
	if s.seen[n] && !(w.alone && msg.Method == "initialize") {
		w.fail("the server sees the id %s twice", n)
	}
	s.seen[n] = true
	r := &simRequest{n: n, method: msg.Method}
	if msg.Params != nil {
		r.mark = msg.Params.M
		r.task = msg.Params.Task != nil
		r.target = msg.Params.URI + msg.Params.TaskID + msg.Params.Level
		if msg.Params.Meta != nil {
			r.token = string(msg.Params.Meta.ProgressToken)
		}
	}
	r.own = r.mark == ""
	if !r.own {
		_, _ = fmt.Sscanf(r.mark, "c%d-", (*int64)(&r.client))
	}
	if r.token != "" && !w.alone {
		for _, other := range s.open {
			if other.token == r.token {
				w.fail("the server sees the token %s twice", r.token)
			}
		}
	}
	if r.method == "initialize" {
		if s.asked {
			w.fail("the server sees initialize twice")
		}
		s.asked = true
		if w.asksRoots && w.r.IntN(4) == 0 { // Too early, but it may.
			w.askRoots()
		}
	} else if !s.initialized && r.method != "ping" { // Each client says that it is ready before it calls.
		w.fail("the server gets %s before it is initialized", r.method)
	}
	s.open = append(s.open, r)
	if r.method == "subscriptions/listen" && w.r.IntN(4) > 0 {
		w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"m":"%s","_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}`, r.mark, r.n))
	}
	if r.method == "initialize" && len(s.asks) > 0 && w.r.IntN(2) == 0 {
		return // It answers late.
	}
	switch r.method { // A server does these in order.
	case "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		w.answer(len(s.open) - 1)
	}
}

func (w *world) serverAnswers() {
	if len(w.server.open) > 0 {
		w.answer(w.r.IntN(len(w.server.open)))
	}
}

func (w *world) answer(i int) {
	s := w.server
	r := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	if r.method == "initialize" && w.r.IntN(16) == 0 && w.refusable() {
		s.asked = false
		w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no"}}`, r.n))
		return
	}
	result := fmt.Sprintf(`{"m":"%s"}`, r.mark)
	switch {
	case r.method == "initialize":
		w.tell(strings.Replace(initializeResult, `"id":1`, `"id":`+r.n, 1))
		return
	case !r.own && r.method != "logging/setLevel" && r.method != "resources/unsubscribe" && !s.subscribed[r.target] && w.r.IntN(8) == 0:
		w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, r.n))
		return
	case r.method == "subscriptions/listen":
		result = fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"m":"%s"}`, r.n, r.mark)
	case r.method == "logging/setLevel":
		s.level = levelNumber(r.target)
	case r.method == "resources/subscribe":
		s.subscribed[r.target] = true
	case r.method == "resources/unsubscribe":
		delete(s.subscribed, r.target)
	case r.method == "tasks/list":
		var list []string
		for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
			list = append(list, fmt.Sprintf(`{"taskId":"%s","status":"working"}`, id))
		}
		result = fmt.Sprintf(`{"m":"%s","tasks":[%s]}`, r.mark, strings.Join(list, ", "))
	case r.method == "tasks/get":
		if r.client != s.tasks[r.target] {
			w.fail("the server is asked by %d for the task of %d", r.client, s.tasks[r.target])
		}
	case r.method == "tasks/cancel":
		delete(s.running, r.target)
	case r.task:
		w.tasks++
		id := fmt.Sprint("t", w.tasks)
		s.tasks[id], s.running[id] = r.client, true
		result = fmt.Sprintf(`{"m":"%s","task":{"taskId":"%s","status":"working"}}`, r.mark, id)
	}
	w.tell(fmt.Sprintf("\t"+`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.n, result)) // White space before a value means nothing.
}

// refusable: no client has a handshake, and none has been asked for its roots.
func (w *world) refusable() bool {
	return w.m.handshake.result == nil && w.server.rootsOf == 0
}

func (w *world) serverProgress() {
	for _, r := range w.server.open {
		if r.token != "" && w.r.IntN(2) == 0 {
			w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"m":"%s","progress":1,"progressToken":%s}}`, r.mark, r.token))
			return
		}
	}
}

// serverTellsListeners has news for a subscription, or ends one.
func (w *world) serverTellsListeners() {
	for i, r := range w.server.open {
		switch {
		case r.method != "subscriptions/listen" || w.r.IntN(2) == 0:
		case w.r.IntN(4) == 0:
			w.server.open = slices.Delete(w.server.open, i, i+1)
			w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, r.n))
			return
		default:
			w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"m":"%s","_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, r.mark, r.n))
			return
		}
	}
}

func (w *world) serverLogs() {
	level := 1 + w.r.IntN(8)
	if level >= w.server.level {
		w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"%s","data":1}}`, levels()[level-1]))
	}
}

func (w *world) serverUpdates() {
	uri := uris()[w.r.IntN(2)]
	if w.server.subscribed[uri] {
		w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"%s"}}`, uri))
	}
}

// serverAsks asks the client of an open call. The message names the call in a way that the mux cannot read.
func (w *world) serverAsks() {
	s := w.server
	var able []*simRequest
	for _, r := range s.open {
		if r.client != 0 && r.method == "tools/call" {
			able = append(able, r)
		}
	}
	if len(able) == 0 {
		return
	}
	r := able[w.r.IntN(len(able))]
	s.count++
	id := strconv.Itoa(s.count)
	s.asks[id] = r.mark
	heard := 0
	if c := w.clients[r.client]; c != nil {
		heard = len(c.asks)
	}
	w.tell(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"sampling/createMessage","params":{"m":"%s"}}`, id, r.mark))
	// Only the client that has been alone from the start is asked.
	if c := w.clients[r.client]; c != nil && (w.m.server.sole == c.id) != (len(c.asks) == heard+1) {
		w.fail("client %d was asked or not, and the server knows %d alone", c.id, w.m.server.sole)
	}
}

// --- what the host does

func (w *world) start() {
	w.server = &simServer{seen: map[string]bool{}, subscribed: map[string]bool{}, tasks: map[string]Client{}, running: map[string]bool{},
		asks: map[string]string{}}
	w.server.asked, w.server.initialized = w.modern, w.modern
}

func (w *world) attach() *simClient {
	w.next++
	c := &simClient{id: w.next, open: map[string]simCall{}, subscribed: map[string]bool{},
		pending: map[string]int{}, latest: map[string]string{}, tasks: map[string]bool{}, asks: map[string]string{},
		cancelled: map[string]bool{}, stale: map[string]bool{}, acked: map[string]bool{}}
	c.asked, c.met, c.ready = w.modern, w.modern, w.modern
	c.roots = w.rootful
	w.clients[c.id] = c
	w.m.Attach(c.id)
	return c
}

func (w *world) detach(c *simClient) {
	w.note("host", fmt.Sprint("detaches ", c.id))
	delete(w.clients, c.id)
	w.deliver(w.m.Detach(c.id))
}

// dies ends the server at any moment: it may have said nothing of what it has read.
func (w *world) dies() {
	w.note("host", "the server dies")
	had := map[string]bool{}
	for _, line := range w.server.inbox {
		var msg wire
		if json.Unmarshal(line, &msg) == nil && msg.Params != nil {
			had[msg.Params.M] = true
		}
	}
	for _, r := range w.server.open {
		had[r.mark] = true
	}
	w.server = nil
	w.deliver(w.m.ServerGone("it ended"))
	for _, c := range w.clients {
		for id, call := range c.open {
			if call.mark != "" && had[call.mark] && !c.acked[call.mark] {
				w.fail("client %d waits for %s, which the dead server had", c.id, id)
			}
		}
		if len(c.asks) > 0 {
			w.fail("client %d is asked by a server that is gone", c.id)
		}
	}
	if w.fault != nil {
		w.fault(w.m)
	}
}

// starts has another server take the place of the last one. A client that is alone may have a mux of another process then.
func (w *world) starts() {
	c := w.clients[1]
	if w.alone && c != nil && len(c.open) == 0 && !w.m.Waits() && w.r.IntN(2) == 0 {
		text, err := json.Marshal(w.m.State())
		var s State
		if err = errors.Join(err, json.Unmarshal(text, &s)); err != nil {
			w.fail("the state cannot be written: %v", err)
		}
		w.note("host", "goes on with "+string(text))
		w.m = Resume(1, s)
	}
	w.note("host", "another server starts")
	w.start()
	w.deliver(w.m.ServerStarted())
	for w.m.Pause() > 0 && len(w.server.inbox) == 0 && len(w.server.open) == 0 && w.failed == "" {
		w.deliver(w.m.PauseOver())
	}
}

// --- a history

func (w *world) step() {
	ids := slices.Sorted(maps.Keys(w.clients))
	n := w.r.IntN(100)
	switch {
	case !w.m.Closed() && (len(ids) == 0 || n < 4 && len(ids) < 4 && !w.alone):
		w.attach()
	case w.server == nil && (len(ids) == 0 || w.r.IntN(4) == 0):
		w.starts()
	case w.server == nil:
		w.clientActs(w.clients[ids[w.r.IntN(len(ids))]])
	case w.r.IntN(100) < w.deaths:
		w.dies()
	case w.m.Pause() > 0 && w.r.IntN(4) == 0:
		w.deliver(w.m.PauseOver())
	case len(ids) == 0: // As in a host, nobody comes any more.
		w.serverActs()
	case n < 6 && !w.alone:
		w.detach(w.clients[ids[w.r.IntN(len(ids))]])
	case n < 60:
		w.serverActs()
	default:
		w.clientActs(w.clients[ids[w.r.IntN(len(ids))]])
	}
}

// settle lets all be answered, and compares what is left.
func (w *world) settle() {
	if w.server == nil && w.failed == "" {
		w.starts()
	}
	for w.failed == "" && w.finish() {
	}
	if w.failed != "" {
		return
	}
	w.compare()
}

// finish does one thing that is still to be done, and reports whether there was one.
func (w *world) finish() bool {
	s := w.server
	switch {
	case w.m.Pause() > 0 && len(s.inbox) == 0 && len(s.open) == 0:
		w.deliver(w.m.PauseOver())
	case len(s.inbox) > 0:
		w.serverReads()
	case s.rootsDue:
		w.askRoots()
	case len(s.open) > 0:
		w.serverAnswers()
	default:
		for _, id := range slices.Sorted(maps.Keys(w.clients)) {
			if c := w.clients[id]; len(c.asks) > 0 {
				w.answerAsk(c)
				return true
			}
		}
		return false
	}
	return true
}

func (w *world) compare() {
	levels, asked := []int{}, 0
	if !w.alone { // Others may come who ask for none.
		levels = append(levels, standardLevel)
	}
	subscribed := map[string]bool{}
	for _, c := range w.clients {
		for id, call := range c.open {
			w.fail("client %d never heard of %s %v", c.id, id, call)
		}
		for uri := range w.m.client(c.id).uris {
			subscribed[uri] = true
		}
		if c.level > 0 {
			asked++
			levels = append(levels, c.level)
		}
		if m := w.m.client(c.id); m.held != 0 || len(m.calls) != 0 {
			w.fail("client %d: %d bytes held, %d calls", c.id, m.held, len(m.calls))
		}
		for _, uri := range uris() {
			if c.subscribed[uri] != (w.m.client(c.id).uris[uri] > 0) {
				w.fail("client %d is subscribed to %v and not to %v", c.id, c.subscribed, w.m.client(c.id).uris)
			}
		}
	}
	for _, c := range w.clients {
		if c.met && c.ready && !w.server.initialized {
			w.fail("the server was not told that client %d is ready", c.id)
		}
	}
	if len(w.server.asks) > 0 {
		w.fail("the server waits for an answer: %v", w.server.asks)
	}
	if !maps.Equal(subscribed, w.server.subscribed) {
		w.fail("subscribed to %v, the server knows %v", subscribed, w.server.subscribed)
	}
	if asked > 0 && w.server.initialized && (w.server.level == 0 || w.server.level > slices.Min(levels)) {
		w.fail("levels %v, the server has %d", levels, w.server.level)
	}
	if len(w.m.calls) > 0 || len(w.m.held) > 0 {
		w.fail("%d calls are left", len(w.m.calls))
	}
}

// play plays one history and says what was wrong. spoil, if it is not nil, changes what the mux says.
func play(seed uint64, spoil func(Out) []Out) *world { return playWith(seed, spoil, nil) }

// playWith plays one history in which each death of a server does fault to the mux, if that is not nil.
func playWith(seed uint64, spoil func(Out) []Out, fault func(*Mux)) *world {
	w := &world{fault: fault, r: rand.New(rand.NewPCG(seed, 14)), m: New(), clients: map[Client]*simClient{}, spoil: spoil}
	w.modern, w.alone, w.deaths = w.r.IntN(4) == 0, w.r.IntN(2) == 0, w.r.IntN(2)*w.r.IntN(8)
	w.m.Alone = w.alone
	if !w.modern {
		w.asksRoots = w.r.IntN(2) == 0
		w.rootful = w.r.IntN(2) == 0
	}
	w.start()
	for range 10 + w.r.IntN(60) {
		if w.step(); w.failed != "" {
			return w
		}
	}
	w.settle()
	return w
}

// MCP_TETHER_SEED sets the first seed, MCP_TETHER_ROUNDS how many are played.
func TestRandomHistories(t *testing.T) {
	histories := max(testkit.Rounds(10_000), 5_000)
	if underRace {
		histories = 500
	}
	first := testkit.Seed(t)
	var all sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for i := range workers {
		all.Go(func() {
			for n := i; n < histories && !t.Failed(); n += workers {
				if w := play(first+uint64(n), nil); w.failed != "" {
					t.Errorf("MCP_TETHER_SEED=%d: %s\n%s", first+uint64(n), w.failed, strings.Join(w.trace, "\n"))
				}
			}
		})
	}
	all.Wait()
}

// A mux with a fault in it does not pass.
func TestRandomHistoriesFindFaults(t *testing.T) {
	replace := func(o Out, what, with string) []Out {
		o.Line = []byte(strings.ReplaceAll(string(o.Line), what, with))
		return []Out{o}
	}
	holds := func(o Out, what string) bool { return strings.Contains(string(o.Line), what) }
	for name, spoil := range map[string]func(Out) []Out{
		"an answer is lost": func(o Out) []Out {
			if o.To != Server && holds(o, `"result":{"m":"c`) {
				return nil
			}
			return []Out{o}
		},
		"an answer comes twice": func(o Out) []Out {
			if o.To != Server && holds(o, `"result":{"m":"c`) {
				return []Out{o, o}
			}
			return []Out{o}
		},
		"a line is for another client": func(o Out) []Out {
			if o.To != Server && holds(o, `"m":"c`) {
				o.To++
			}
			return []Out{o}
		},
		"an answer has another id":    func(o Out) []Out { return replace(o, `"id":-1,`, `"id":2,`) },
		"a token is another client's": func(o Out) []Out { return replace(o, `"progressToken":1`, `"progressToken":2`) },
		"log messages of any level":   func(o Out) []Out { return replace(o, `"level":"emergency","data"`, `"level":"debug","data"`) },
		"a resource that is not watched": func(o Out) []Out {
			return replace(o, `updated","params":{"uri":"file:///a"`, `updated","params":{"uri":"file:///z"`)
		},
		"the server is not told of the end of a subscription": func(o Out) []Out {
			if o.To == Server && holds(o, "resources/unsubscribe") && !holds(o, `"m"`) {
				return nil
			}
			return []Out{o}
		},
		"tasks of others are listed":     func(o Out) []Out { return replace(o, `"tasks":[]`, `"tasks":[{"taskId":"t0"}]`) },
		"news of another's subscription": func(o Out) []Out { return replace(o, `subscriptionId":1}`, `subscriptionId":2}`) },
		"a call of a dead server is not answered": func(o Out) []Out {
			if o.To != Server && holds(o, `"it ended"`) {
				return nil
			}
			return []Out{o}
		},
		"a call of a dead server is answered twice": func(o Out) []Out {
			if o.To != Server && holds(o, `"it ended"`) {
				return []Out{o, o}
			}
			return []Out{o}
		},
		"a question of a dead server stays": func(o Out) []Out {
			if o.To != Server && holds(o, `"the server has ended"`) {
				return nil
			}
			return []Out{o}
		},
		"initialize comes twice": func(o Out) []Out {
			if o.To == Server && holds(o, `"initialize"`) {
				return []Out{o, o}
			}
			return []Out{o}
		},
		"the server is not told that a client is ready": func(o Out) []Out {
			if o.To == Server && holds(o, "notifications/initialized") {
				return nil
			}
			return []Out{o}
		},
		"the level is not set":             func(o Out) []Out { return replace(o, `"level":"debug"}`, `"level":"info"}`) },
		"the call of another is cancelled": func(o Out) []Out { return replace(o, `"requestId":4`, `"requestId":99`) },
		"what the server asked is not taken back": func(o Out) []Out {
			if o.To != Server && holds(o, `"method":"notifications/cancelled"`) {
				return nil
			}
			return []Out{o}
		},
	} {
		if !foundBy(func(seed uint64) *world { return play(seed, spoil) }) {
			t.Errorf("%s: no history finds it", name)
		}
	}
}

// foundBy reports whether a history finds a fault.
func foundBy(play func(seed uint64) *world) bool {
	for seed := range uint64(3000) {
		if w := play(seed); w.failed != "" {
			return true
		}
	}
	return false
}

// A mux that goes on wrongly when a server has died does not pass.
func TestDeathsFindFaults(t *testing.T) {
	for name, fault := range map[string]func(*Mux){
		"ids of questions are used again":   func(m *Mux) { m.server.renames = false },
		"the new server is not initialized": func(m *Mux) { m.handshake.result = nil },
		"it is not told who is ready":       func(m *Mux) { m.handshake.initialized = "" },
		"it is not told the level":          func(m *Mux) { m.clients[0].level = 0 },
		"it is not told of subscriptions": func(m *Mux) {
			for _, c := range m.clients {
				clear(c.uris)
			}
		},
		"open subscriptions are lost": func(m *Mux) {
			for _, k := range m.openListens() {
				delete(m.calls, k.ours)
			}
		},
		"what waits is lost":              func(m *Mux) { m.held = nil },
		"it is asked while there is none": func(m *Mux) { m.server.away = false },
		"a call that waits is answered": func(m *Mux) {
			for _, k := range slices.Clone(m.held) {
				if k.line != nil && k.method != "" {
					m.close(k)
				}
			}
		},
	} {
		if !foundBy(func(seed uint64) *world { return playWith(seed, nil, fault) }) {
			t.Errorf("%s: no history finds it", name)
		}
	}
}
