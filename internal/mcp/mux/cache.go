package mux

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-tether/internal/mcp"
)

// Published is what a server says of itself before it has any work. A later session may tell its client the same, and start the
// server when that is not enough.
type Published struct {
	// Answers are those to requests, by the request without its id.
	Answers map[string]Answer `json:"answers"`
	// Roots says that the server asks for the client's roots at its start.
	Roots bool `json:"roots,omitempty"`
	// Changed are the lists that are not any more what they were. They are news, and never written down.
	Changed []string `json:"-"`
}

// Answer is an answer that later sessions may give.
type Answer struct {
	// Text is an object with result or error. Without one the request must not be answered: the answer differs from one start to the
	// next, and the client could not be told of that.
	Text json.RawMessage `json:"text,omitempty"`
	// Until is when it holds no more; zero where it holds as long as the server.
	Until time.Time `json:"until,omitzero"`
}

// Add takes news, and reports whether they change anything. With another answer to initialize all others are unknown, but for those
// that must not be given.
func (p *Published) Add(news Published) (changed bool) {
	changed = len(news.Answers) > 0 || news.Roots && !p.Roots
	p.Roots = p.Roots || news.Roots
	initialize, has := news.Answers[mcp.MethodInitialize]
	another := has && !mcp.SameJSON(p.Answers[mcp.MethodInitialize].Text, initialize.Text)
	for key, a := range p.Answers {
		method, _, _ := strings.Cut(key, " ")
		if (another || slices.Contains(news.Changed, mcp.RuleOf(method).List)) && a.Text != nil {
			delete(p.Answers, key)
			changed = true
		}
	}
	if p.Answers == nil {
		p.Answers = map[string]Answer{}
	}
	for key, a := range news.Answers {
		if old, has := p.Answers[key]; !has || old.Text != nil {
			p.Answers[key] = a
		}
	}
	return changed
}

// save leaves news of the server to later sessions, which know it by the initialize that it was sent.
func (m *Mux) save(initialize string, news Published) {
	if m.Save != nil {
		m.Save([]byte(initialize), &news)
	}
}

// saveInitialize saves the answer to initialize.
func (m *Mux) saveInitialize(result []byte) {
	answers := map[string]Answer{mcp.MethodInitialize: {Text: []byte(`{"result":` + string(result) + `}`)}}
	m.save(m.handshake.initialize, Published{Answers: answers, Roots: m.roots.Use == rootsAtStart})
}

// saveChanged tells later sessions that lists are not what they were.
func (m *Mux) saveChanged(kinds ...string) {
	if len(kinds) > 0 {
		m.save(m.handshake.initialize, Published{Changed: kinds})
	}
}

// ForgetSaved says that no server could be had that is what the client was told, if it was told anything.
func (m *Mux) ForgetSaved() {
	if m.told && m.Save != nil {
		m.Save([]byte(m.handshake.initialize), nil)
	}
}

// Told reports whether the client was told something in the place of a server.
func (m *Mux) Told() bool { return m.told }

// cacheKey is the request without its id; "" if nothing would be kept of its answer. Without a handshake each request says who
// asks (2026-07-28).
func (m *Mux) cacheKey(r request, k *call) string {
	switch {
	case m.Load == nil:
		return ""
	case k.modern && (k.list != "" || k.method == mcp.MethodDiscover):
		return k.method + " " + string(r.msg.Params.Of(r.msg.Raw))
	case k.list != "", k.method == mcp.MethodInitialize:
		return k.method
	}
	return ""
}

// maxTTL bounds what a server may say.
const maxTTL = 7 * 24 * time.Hour

// saveAnswer keeps an answer for later sessions. The lists of a server that has worked may be the fruit of its work. From
// 2026-07-28 on the result says how long it holds (ttlMs) and for whom (cacheScope; SEP-2549). That a server of an earlier
// version does not know server/discover holds as long as the server.
func (m *Mux) saveAnswer(k *call, msg mcp.Message) {
	a := Answer{Text: []byte(`{"result":` + string(msg.Result.Of(msg.Raw)) + `}`)}
	initialize := m.handshake.initialize
	if k.modern || k.method == mcp.MethodDiscover {
		initialize = ""
	}
	switch {
	case k.method == mcp.MethodDiscover && msg.IsError && string(mcp.ValueAt(msg.Raw, "error", "code")) == "-32601":
		a.Text = []byte(`{"error":` + string(msg.Error.Of(msg.Raw)) + `}`)
	case msg.IsError, isPaged(msg):
		return
	case k.modern:
		var says struct {
			TTL   int64  `json:"ttlMs"`
			Scope string `json:"cacheScope"`
		}
		if json.Unmarshal(msg.Result.Of(msg.Raw), &says) != nil || says.TTL <= 0 || says.Scope != "public" && says.Scope != "private" {
			return
		}
		a.Until = time.Now().Add(time.Duration(min(says.TTL, maxTTL.Milliseconds())) * time.Millisecond)
	case m.roots.working:
		return
	}
	m.save(initialize, Published{Answers: map[string]Answer{k.cacheKey: a}})
}

// loadAnswer is what earlier sessions know of the answer to a request, if it could be that of the server that the client has met, or
// would meet.
func (m *Mux) loadAnswer(r request, k *call) (a Answer, roots, ok bool) {
	h := &m.handshake
	var initialize []byte
	switch {
	case k.cacheKey == "":
		return a, false, false
	case k.method == mcp.MethodInitialize && h.result == nil:
		initialize = r.msg.Line
	case k.method == mcp.MethodDiscover && h.result == nil, k.modern && h.modern && h.result == nil:
	case k.list == "", h.phase != phaseDone:
		return a, false, false
	default:
		initialize = []byte(h.initialize)
	}
	known := m.Load(initialize)
	a = known.Answers[k.cacheKey]
	return a, known.Roots, len(a.Text) > 0 && a.Text[0] == '{' && (a.Until.IsZero() || time.Now().Before(a.Until))
}

// answerFromCache answers a request in the place of a server that has not been started, or sleeps, if an earlier session has left the
// answer. The conversation goes on as if the server had answered.
func (m *Mux) answerFromCache(c *client, r request, k *call) bool {
	a, roots, ok := m.loadAnswer(r, k)
	if !ok {
		return false
	}
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s`+"\n", k.id, a.Text[1:])
	msg := mcp.Parse(line)
	switch {
	case k.method == mcp.MethodInitialize:
		if k.kept = r.msg.Line; roots {
			m.roots.Use = rootsAtStart
		}
		m.keepHandshake(k, msg)
	case k.list != "":
		m.learnList(k.list, msg, true)
	}
	if !msg.IsError && k.modern {
		m.provesModern()
		c.modern = c.modern || k.method != mcp.MethodDiscover
	}
	m.told = true
	m.toClient(c, line)
	return true
}
