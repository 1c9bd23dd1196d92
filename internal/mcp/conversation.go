package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Conversation keeps what a relay must know of both directions to hibernate a server and to wake it. Report every
// message to it, each direction in order, before the receiver can act on it. Do not report what a relay sends and
// swallows because of Replay. The zero value has seen nothing. Not for concurrent use.
type Conversation struct {
	client, server side
	handshake      handshake
	// modern says that the server answered a request of 2026-07-28 or later, or opened a subscription, so it needs no
	// handshake.
	modern bool
	memory restorable
	lists  lists
	ids    relayIDs
	roots  roots
	past   generations
	// publication is what other sessions may know of the server.
	publication publication
	// unclear is when the last unreadable message was seen; zero if there was none.
	unclear time.Time
}

// unclearFor is how long an unreadable message keeps a server from hibernation. If it was a request, its end cannot be
// recognised. A client's own time limit for a request is usually shorter. A line of noise must not keep the server
// running for ever.
const unclearFor = time.Hour

// side is one side, and what it has asked of the other.
type side struct {
	requests requests
	tasks    tasks
}

// FromClient takes a message of the client, and reports whether it uses the server. A ping does not, nor does a message
// without effect, such as an answer to no question.
func (c *Conversation) FromClient(m Message, now time.Time) (used bool) {
	c.roots.heard(m)
	switch {
	case m.asks():
		c.ids.avoid(m.ID)
		if m.Method == MethodInitialize {
			c.handshake.begin(m)
		}
		c.client.requests.add(newRequest(m))
		if c.publication.on {
			c.publication.answers.ask(m)
		}
		return m.Method != MethodPing
	case m.answers():
		r, ok := c.server.answered(m, now)
		c.past.answer(m.ID)
		if r.method == MethodRoots {
			c.roots.got, c.roots.refused = !m.IsError, m.IsError
		}
		return ok && r.method != MethodPing
	case m.Kind == Notification:
		return c.noticeOfClient(m, now)
	case m.unclear():
		c.unclear = now
	}
	return true
}

func (c *Conversation) noticeOfClient(m Message, now time.Time) (used bool) {
	switch m.Method {
	case MethodInitialized:
		c.handshake.confirm(m)
		c.roots.since = now
	case MethodCancelled:
		return c.client.requests.cancel(CancelledID(m))
	case MethodTaskStatus:
		c.server.tasks.notified(ValueAt(m.Raw, "params"))
	}
	return true
}

// FromServer takes a message of the server, and reports whether it counts as use, as FromClient does. When a relay
// answers a request of the client itself, it reports that here, with a Message that has the ID, Kind Response and
// IsError.
func (c *Conversation) FromServer(m Message, now time.Time) (used bool) {
	switch {
	case m.asks():
		c.ids.avoid(m.ID)
		c.past.ask(m.ID)
		if m.Method == MethodRoots {
			c.roots.ask(c.client.requests.waiting(), now)
		}
		c.server.requests.add(newRequest(m))
		return m.Method != MethodPing
	case m.Kind == Response:
		return m.answers() && c.answeredClient(m, now)
	case m.Kind == Notification:
		c.noticeOfServer(m)
	case m.unclear():
		c.unclear = now
	}
	return true
}

// answeredClient reports whether the answer was to a request other than a ping.
func (c *Conversation) answeredClient(m Message, now time.Time) (used bool) {
	r, ok := c.client.answered(m, now)
	if c.publication.on {
		c.publication.answers.take(r, m, now)
	}
	switch {
	case !ok:
	case r.method == MethodInitialize:
		// An earlier initialize may be answered after it was replaced.
		if m.ID == c.handshake.id {
			c.handshake.answer(m)
		}
	case m.IsError:
		c.lists.expire(r.lists)
	case r.lists != "":
		c.lists.learn(r.lists, r.cursor, m)
		if pages := c.lists.whole(r.lists); pages != nil {
			c.publish(r.lists, pages)
		}
		c.modern = c.modern || r.modern
	case remembers(r.method):
		c.memory.apply(r)
	case r.modern:
		// An error would prove nothing: clients probe servers of earlier versions with such a request and then fall back
		// to initialize (2026-07-28, basic/transports/stdio, "Backward Compatibility").
		c.modern = true
	}
	return ok && r.method != MethodPing
}

func (c *Conversation) noticeOfServer(m Message) {
	switch m.Method {
	case MethodCancelled:
		c.cancelledByServer(CancelledID(m))
	case MethodAcknowledged:
		c.acknowledged(m)
	case MethodTaskStatus, MethodTaskExtension:
		c.client.tasks.notified(ValueAt(m.Raw, "params"))
	default:
		c.forgetLists(m.Method)
	}
}

// cancelledByServer takes a cancellation by the server. It cancels one of the server's requests or, from 2026-07-28 on,
// ends a client's subscription ("Servers MUST NOT send notifications/cancelled for any other purpose",
// basic/patterns/cancellation).
func (c *Conversation) cancelledByServer(id string) {
	if c.server.requests.cancel(id) {
		return
	}
	if open := c.client.requests.open[id]; len(open) > 0 && open[0].method == MethodListen {
		c.client.requests.cancel(id)
	}
}

// answered takes the answer to a request of this side.
func (p *side) answered(m Message, now time.Time) (request, bool) {
	r, ok := p.requests.answer(m.ID)
	switch {
	case !ok:
	case aboutTasks(r.method):
		p.tasks.asked(r, m)
	case r.mayTask && !m.IsError && m.Raw != nil:
		p.tasks.created(ValueAt(m.Raw, "result"), now)
	}
	return r, ok
}

// newRequest keeps those parts of a request that are needed to understand its answer. A request that was too large to keep
// may ask for anything.
func newRequest(m Message) request {
	r := request{id: m.ID, method: m.Method, known: true, modern: m.Method == MethodDiscover}
	if m.Raw == nil {
		r.known = !remembers(m.Method)
		r.mayTask = true
		return r
	}
	switch {
	case remembers(m.Method):
		r.params, r.known = withoutMeta(m.Raw)
		r.target = textAt(r.params, "uri")
	case aboutTasks(m.Method):
		r.target = textAt(m.Raw, "params", "taskId")
	default:
		if m.Method == MethodListen {
			r.line = bytes.Clone(m.Raw)
		}
		r.mayTask = mayTask(m.Raw)
		r.modern = r.modern || saysVersion(m.Raw)
		if r.lists, r.cursor = listKind(m); r.lists != "" {
			r.line = bytes.Clone(m.Raw)
		}
	}
	return r
}

// saysVersion reports whether a request names the protocol's version, as every request of 2026-07-28 and later does.
// The key's slash may be written as \/, so the quick check looks for the part behind it.
func saysVersion(raw []byte) bool {
	return mentions(raw, "protocolVersion") && textAt(raw, "params", "_meta", MetaVersion) != ""
}

// mayTask reports whether a request may be answered with a task. In 2025-11-25 the member task of its params asks for one.
// In the extension the request only says that the client knows tasks, and the server decides (SEP-2663, "Capability
// Negotiation").
func mayTask(raw []byte) bool {
	if !mentions(raw, "task") {
		return false
	}
	params := ValueAt(raw, "params")
	if params == nil && !json.Valid(raw) {
		return true // The server may read what this parser rejects.
	}
	return isObject(ValueAt(params, "task")) || ValueAt(params, "_meta", MetaCapabilities, "extensions", TasksExtension) != nil
}

// CancelledID is the request that a notification cancels, "" if it cannot be known.
func CancelledID(m Message) string {
	id, _ := NormalID(bytes.TrimSpace(ValueAt(m.Raw, "params", "requestId")))
	return id
}

// without reports whether the server works without a handshake, and has none.
func (c *Conversation) without() bool { return c.modern && !c.handshake.answered }

// MaySleep is "" when nothing stands in the way of ending the server; otherwise it says for the log what does. It does
// not know of a message of which only a part has come: ask Scanner.Partial, too.
func (c *Conversation) MaySleep(now time.Time) string {
	if !c.handshake.done() && !c.without() {
		return "handshake unfinished"
	}
	for _, reason := range []string{
		c.client.requests.unanswered("client"),
		c.server.requests.unanswered("server"),
		c.client.tasks.unfinished("client", now),
		c.server.tasks.unfinished("server", now),
		c.handshake.lost(),
		c.memory.lostLevel,
		c.memory.lost,
		c.roots.unknown(),
		c.unread(now),
		c.tooManyOwed(),
	} {
		if reason != "" {
			return reason
		}
	}
	return ""
}

// Pending lists the ids, as JSON, of the client's unanswered requests, oldest first. An id that is used twice is listed
// twice. With calls, it leaves out the subscriptions that the next server can be sent again.
func (c *Conversation) Pending(calls bool) []string {
	var ids []string
	for _, r := range c.client.requests.waiting() {
		if !calls || !r.restorable() {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// Works reports whether a request of the client is open that may have begun work: one that is more than a greeting, a
// question for a list, or a subscription.
func (c *Conversation) Works() bool {
	for _, same := range c.client.requests.open {
		for i := range same {
			if r := &same[i]; r.method != MethodInitialize && r.method != MethodDiscover && r.method != MethodListen && r.lists == "" {
				return true
			}
		}
	}
	return false
}

// unread says that a message could not be read, as long as that matters.
func (c *Conversation) unread(now time.Time) string {
	if c.unclear.IsZero() || now.Sub(c.unclear) >= unclearFor {
		return ""
	}
	return "a message that could not be read"
}

func (c *Conversation) tooManyOwed() string {
	if len(c.past.owed)+len(c.past.asked) > maxOwed {
		return "too many requests of the server that were never answered"
	}
	return ""
}

// Unrestorable says why no other server could take the place of this one if it ended now; "" if one could. Calls that are
// open do not stand in the way: they are lost with it.
func (c *Conversation) Unrestorable() string {
	return cmp.Or(c.handshake.lost(), c.memory.lostLevel, c.memory.lost, c.roots.unknown())
}

// ServerGone forgets what belonged to the server that has ended: its requests, and the tasks of both sides. Requests of
// the client stay: they may wait for the next server. It returns the ids, as the client knows them, of the server's
// requests that are still open.
func (c *Conversation) ServerGone() (open []string) {
	for _, r := range c.server.requests.waiting() {
		open = append(open, cmp.Or(c.past.shown[r.id], r.id))
	}
	c.past.next()
	c.roots = c.roots.next()
	c.memory.refused = nil
	c.server = side{}
	c.client.tasks = nil
	c.unclear = time.Time{}
	return open
}

// Accepted takes the news that a new server has taken the place of the last one. What a server meets that is only tried
// is forgotten with it.
func (c *Conversation) Accepted() {
	c.roots.tried = false
	c.memory.accept()
}

// Step is one message that a new server must be sent.
type Step struct {
	// Roots says that there is no message: wait until the server has asked for the client's roots and has the answer.
	// Settle says that there is no message, and that the server needs a moment for itself.
	Roots, Settle bool
	// Listen says that Line opens a subscription of the client, so what to wait for is its acknowledgement.
	Listen bool
	// Line is the message, with its newline.
	Line []byte
	// AwaitID is the id of the answer to wait for and to swallow; "" for a message without an answer.
	AwaitID string
	// Check takes that answer. tell are lines, with their newlines, for the client. After an error the server cannot
	// replace the earlier one; after ErrChanged no later server can. Check is nil if AwaitID is "".
	Check func(m Message) (tell []byte, err error)
	// More lists the steps that this answer makes necessary. It is called after Check, and nil if there can be none.
	More func() []Step
}

// Replay lists what a new server must be sent, in order, before it can go on where the last one was. Each call uses new
// ids of the relay, which no request of the client has had. No other request is repeated. The list is empty if there
// was no handshake and there is nothing to restore. It leaves out what MaySleep reports as lost, which can only be when
// a server ended by itself.
func (c *Conversation) Replay() []Step {
	var steps []Step
	if c.handshake.answered && c.handshake.lost() == "" {
		steps = append(c.handshake.replay(c.checkHandshake), c.readLists()...)
	}
	steps = append(steps, c.memory.replay(c.nextID)...)
	steps = append(steps, c.listenAgain()...)
	steps = append(steps, c.roots.sayAgain()...)
	return append(steps, c.AwaitRoots()...)
}

// AwaitRoots lists the steps after which a new server knows the client's roots. It must ask, read the answer, and
// answer a ping. After a moment it must answer another. Servers that never ask need no step.
func (c *Conversation) AwaitRoots() []Step {
	if !c.roots.usual {
		return nil
	}
	return []Step{{Roots: true}, ping(c.nextID()), {Settle: true}, ping(c.nextID())}
}

func ping(id string) Step {
	return Step{
		Line:    fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q}`+"\n", id, MethodPing),
		AwaitID: id,
		Check:   func(Message) ([]byte, error) { return nil, nil },
	}
}

// ErrorReply is the line, with its newline, that answers a request with an error. id is JSON. The code is -32603,
// "internal error" (JSON-RPC 2.0, section 5.1): MCP's own codes are for other things (2026-07-28, basic/index, "Error
// Codes").
func ErrorReply(id, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%s}}`+"\n", id, Quote(message))
}

// PingReply is the line, with its newline, that answers a ping. id is JSON.
func PingReply(id string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
}
