package mux

import (
	"bytes"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"mcp-tether/internal/mcp"
)

// call is a request to the server.
type call struct {
	ids
	// client asked for it; nil for a request of the mux's own, or of a client that has left.
	client *client
	method string
	rule   mcp.Rule
	// target is the uri of a subscription or the id of a task.
	target string
	// level is the log level that the server gets by it, or that it names in _meta; 0: none.
	level int
	// line waits for the server, or for another call. kept is what another server can be sent again: an initialize, or a
	// subscription, of which agreed says what the server has agreed to report; nil until then.
	line, kept, agreed []byte
	// list is the list whose first page it asks for, cacheKey its name in the cache; "" for none.
	list, cacheKey string
	// own: the mux asks. sent: the server has it. again: it is asked what an earlier one was asked. modern: it names its protocol version. mayTask: the answer may be a task.
	own, sent, again, modern, mayTask bool
}

// request is what must be known of a request or notification of a client.
type request struct {
	msg mcp.Message
	// target is the member of params that the method is about.
	target mcp.Span
	meta   mcp.Span
	// token, version and level are members of _meta.
	token, version, level mcp.Span
}

// replace is the edit that puts a text in the place of a value, if that is there.
func replace(value mcp.Span, with string) mcp.Edit { return mcp.Edit{Span: value, With: with} }

// parse finds what the mux must know or change.
func parse(msg mcp.Message) request {
	r := request{msg: msg}
	var params [2]mcp.Span
	mcp.Pick(msg.Raw, msg.Params, []string{"_meta", mcp.RuleOf(msg.Method).About}, params[:])
	r.meta, r.target = params[0], params[1]
	var meta [3]mcp.Span
	mcp.Pick(msg.Raw, r.meta, []string{"progressToken", mcp.MetaVersion, mcp.MetaLogLevel}, meta[:])
	r.token, r.version, r.level = meta[0], meta[1], meta[2]
	return r
}

// clientAsks takes a request of a client.
func (m *Mux) clientAsks(c *client, msg mcp.Message) {
	id := string(msg.IDSpan.Of(msg.Raw))
	k := &call{ids: ids{id: id, key: msg.ID}, client: c, method: msg.Method, rule: mcp.RuleOf(msg.Method)}
	switch {
	case m.Alone:
		m.dispatch(c, parse(msg), k)
	case msg.ID == mcp.IDNull:
		m.refuse(c, mcp.IDNull, mcp.CodeInvalid, "the id must not be null")
	case len(c.calls) >= maxOpen:
		m.refuse(c, id, mcp.CodeInternal, fmt.Sprintf("%d requests are open already", len(c.calls)))
	case c.calls[msg.ID] != nil:
		m.refuse(c, id, mcp.CodeInvalid, "a request with this id is open already")
	case strings.HasPrefix(msg.Method, "notifications/"): // A careless server could take it for one, with an id that is not this client's.
		m.refuse(c, id, mcp.CodeInvalid, "a notification must not have an id")
	case c.held > 0 && c.held+int64(len(msg.Raw)) > maxHeld:
		m.refuse(c, id, mcp.CodeInternal, "too much waits for the server")
	default:
		m.dispatch(c, parse(msg), k)
	}
}

// dispatch sorts a request by what must be done about it.
func (m *Mux) dispatch(c *client, r request, k *call) {
	k.modern = r.msg.Text(r.version) != ""
	if why := m.mixes(r, k); why != "" {
		m.refuse(c, k.id, mcp.CodeInvalid, why)
		return
	}
	c.modern = c.modern || k.modern && k.method != mcp.MethodDiscover
	if k.modern {
		k.level = levelNumber(r.msg.Text(r.level))
	}
	k.target = r.msg.Text(r.target)
	if r.token.To > 0 {
		k.token = string(r.token.Of(r.msg.Raw))
	}
	k.mayTask = k.target == "" && m.mayTask(r)
	if m.Alone && r.isFirst() {
		k.list = k.rule.List
	}
	k.cacheKey = m.cacheKey(r, k)
	if m.Alone && m.answersItself(c, r, k) {
		return
	}
	switch k.method {
	case mcp.MethodInitialize:
		m.initialize(r, k)
	case mcp.MethodSetLevel:
		m.setLevel(c, r, k)
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		m.subscribe(c, r, k)
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel, mcp.MethodTasksUpdate:
		if t := m.server.tasks[k.target]; !m.Alone && (t == nil || t.client != c) {
			m.refuse(c, k.id, mcp.CodeParams, "task not found")
			return
		}
		fallthrough
	default:
		m.open(k)
		m.send(k, m.line(r, k, mcp.Edit{}))
	}
}

// open gives a call its number and counts it.
func (m *Mux) open(k *call) {
	m.lastID++
	k.n = m.lastID
	c := k.client
	switch {
	case m.Alone && c != nil:
		k.ours = k.key
	case m.Alone && k.ours == "":
		k.ours = m.ownID()
	case !m.Alone:
		k.ours = strconv.FormatInt(k.n, 10)
	}
	m.calls[k.ours] = k
	if c != nil {
		c.calls[k.key] = k
	}
}

// line is a request of a client as the server is to see it, with another edit where the method needs one.
func (m *Mux) line(r request, k *call, other mcp.Edit) []byte {
	if m.Alone {
		return r.msg.Line
	}
	return mcp.Splice(r.msg.Raw, replace(r.msg.IDSpan, k.ours), replace(r.token, k.ours), other)
}

func (m *Mux) sendNow(k *call, line []byte) {
	k.sent = true
	if k.client != nil {
		m.noteKnown(k.client)
		m.roots.working = m.roots.working || k.rule.Work
	}
	switch k.method {
	case mcp.MethodInitialize:
		if m.handshake.phase = phaseAsked; !m.Alone { // The one before it may have been refused, or given up.
			m.handshake.params = bytes.Clone(mcp.At(line, "params").Of(line))
		}
		fallthrough
	case mcp.MethodListen:
		k.kept = bytes.Clone(line)
	case mcp.MethodSetLevel:
		if k.level > 0 {
			m.server.level = k.level
		}
	}
	out := Out{To: Server, Line: line, Ordered: k.client == nil || k.rule.Keeps}
	if k.client != nil {
		out.From = k.client.id
	}
	m.out = append(m.out, out)
}

// serverAnswers takes a response of the server.
func (m *Mux) serverAnswers(msg mcp.Message) {
	m.server.answered = true
	k := m.callOf(msg.ID)
	switch {
	case k == nil || !k.sent: // An answer to no question, or a late one.
		m.passToClient(msg)
		return
	case m.server.leaving && k.agreed != nil: // The next server gets the subscription again.
		return
	}
	m.used = m.used || k.method != mcp.MethodPing
	switch {
	case k.own && k.rule.List != "":
		m.listRead(k.target, msg)
	case k.list != "":
		m.learnList(k.list, msg, false)
	}
	if k.cacheKey != "" && k.method != mcp.MethodInitialize {
		m.saveAnswer(k, msg)
	}
	if k.modern && !msg.IsError {
		m.provesModern()
	}
	switch {
	case k.method == mcp.MethodInitialize:
		m.handshakeAnswered(k, msg)
	case k.method == mcp.MethodSetLevel:
		m.levelSet(k, msg)
	case k.method == mcp.MethodSubscribe:
		m.subscribed(k, msg)
	case k.method == mcp.MethodUnsubscribe && !msg.IsError:
		delete(m.server.subscribed, k.target)
		m.deliver(k, msg, mcp.Edit{})
	case k.method == mcp.MethodTasksList && !msg.IsError:
		m.deliver(k, msg, m.ownTasks(k, msg))
	case k.method == mcp.MethodListen && !msg.IsError:
		m.deliver(k, msg, replace(msg.Within(msg.Result, "_meta", mcp.MetaSubscription), k.id))
	default:
		m.taskNews(k, msg)
		m.deliver(k, msg, mcp.Edit{})
	}
	m.noteRepeated(k)
}

// deliver gives an answer to the client that asked, with another edit beside that of the id, and closes the call.
func (m *Mux) deliver(k *call, msg mcp.Message, other mcp.Edit) {
	switch m.close(k); {
	case k.client == nil:
	case m.Alone:
		m.toClient(k.client, msg.Line)
	default:
		m.toClient(k.client, mcp.Splice(msg.Raw, replace(msg.IDSpan, k.id), other))
	}
}

// close forgets a call.
func (m *Mux) close(k *call) {
	m.unhold(k)
	if m.calls[k.ours] == k {
		delete(m.calls, k.ours)
	}
	if c := k.client; c != nil && c.calls[k.key] == k {
		delete(c.calls, k.key)
	}
}

// refuse answers a request that is not passed on.
func (m *Mux) refuse(c *client, id string, code int, message string) {
	m.toClient(c, mcp.ErrorReply(id, code, message))
}

// cancel takes a client's notice that it no longer wants an answer: none reaches it. A request that changes what the server
// keeps is not cancelled (subscriptions, the log level), nor is initialize, which must not be: its answer still comes.
func (m *Mux) cancel(c *client, r request) {
	k := c.calls[r.msg.IDAt(r.target)]
	if k == nil || k.method == mcp.MethodInitialize || k.rule.Keeps && !m.Alone {
		m.passIfServed(c, r.msg)
		return
	}
	m.used = m.used || k.method != mcp.MethodPing
	if k.sent && m.Alone {
		m.passIfServed(c, r.msg)
	} else if k.sent {
		m.toServerFrom(c, mcp.Splice(r.msg.Raw, replace(r.target, k.ours)))
	}
	m.close(k)
	m.noteRepeated(k)
}

// staysOn reports whether a call goes on when its client has left: what the server was sent after it counts on it, or it is a
// handshake under way. An end of a subscription is wanted anyway.
func (k *call) staysOn() bool { return k.rule.Keeps && k.sent || k.method == mcp.MethodUnsubscribe }

// abandonCalls ends the calls of a client that has left.
func (m *Mux) abandonCalls(c *client) {
	var calls []*call
	for _, k := range c.calls {
		calls = append(calls, k)
	}
	byNumber(calls)
	for _, k := range calls { // What waits goes first: none of it may get its turn meanwhile.
		if !k.sent && !k.staysOn() {
			m.close(k)
		}
	}
	for _, k := range calls {
		if k.staysOn() {
			k.client = nil
		} else if k.sent {
			m.toServerFrom(c, append(mcp.Cancelled(k.ours, "the client has left"), '\n'))
			delete(m.calls, k.ours)
			m.noteRepeated(k)
		}
	}
}

func byNumber(calls []*call) {
	sort.Slice(calls, func(a, b int) bool { return calls[a].n < calls[b].n }) // slices.SortFunc would be another seven kilobytes.
}

// askOwn sends a request of the mux's own, as soon as the server takes any.
func (m *Mux) askOwn(method, target, params string) { m.send(m.own(method, target, params)) }

// own opens a request of the mux's own.
func (m *Mux) own(method, target, params string) (*call, []byte) {
	k := &call{own: true, method: method, rule: mcp.RuleOf(method), target: target}
	m.open(k)
	return k, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", k.ours, method, params)
}

// callOf is the call that the server means by an id, nil if there is none. Some programs repeat a number as a string, which the
// SDKs accept.
func (m *Mux) callOf(id string) *call {
	if k := m.calls[id]; k != nil {
		return k
	}
	return m.calls[strings.Trim(id, `"`)]
}
