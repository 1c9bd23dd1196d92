package mux

import (
	"encoding/json"
	"fmt"
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
	// Wrong says that a server is not what its client was told. It is never written down.
	Wrong bool `json:"-"`
}

// Answer is an answer that later sessions may give.
type Answer struct {
	// Text is an object with result or error; nil in news of an answer that is not known any more.
	Text json.RawMessage `json:"text,omitempty"`
	// Until is when it holds no more; zero where it holds as long as the server.
	Until time.Time `json:"until,omitzero"`
	// Never says that the request must not be answered: the answer differs from one start to the next, and the client could not be
	// told of that.
	Never bool `json:"never,omitempty"`
}

// Add takes what is newer. With another answer to the handshake all others are unknown, but for those that must never be given.
func (p *Published) Add(newer Published) {
	hello, has := newer.Answers[mcp.MethodInitialize]
	for key, a := range p.Answers {
		if has && !mcp.SameJSON(p.Answers[mcp.MethodInitialize].Text, hello.Text) && !a.Never && key != mcp.MethodInitialize {
			delete(p.Answers, key)
		}
	}
	if p.Answers == nil {
		p.Answers = map[string]Answer{}
	}
	for key, a := range newer.Answers {
		switch {
		case p.Answers[key].Never:
		case a.Text == nil && !a.Never:
			delete(p.Answers, key)
		default:
			p.Answers[key] = a
		}
	}
	p.Roots = p.Roots || newer.Roots
}

// cached is what is known of the server that answers one greeting, and what is new of that.
type cached struct {
	known, news Published
}

func (s *cached) fresh() bool { return s.news.Answers != nil || s.news.Roots || s.news.Wrong }

// cache are those of the client's handshake, and of requests without one.
type cache struct {
	greeted, modern cached
	// told says that the client was told something in the place of a server.
	told bool
}

func (s *cached) put(key string, a Answer) {
	s.known.Add(Published{Answers: map[string]Answer{key: a}})
	if s.news.Answers == nil {
		s.news.Answers = map[string]Answer{}
	}
	s.news.Answers[key] = a
}

// forget notes that a list is not what it was.
func (s *cache) forget(kind string) {
	for _, one := range []*cached{&s.greeted, &s.modern} {
		for key, a := range one.known.Answers {
			if method, _, _ := strings.Cut(key, " "); method == kind+"/list" && !a.Never {
				one.put(key, Answer{})
			}
		}
	}
}

// never notes that a list differs from one start to the next.
func (s *cache) never(kind string) { s.greeted.put(kind+"/list", Answer{Never: true}) }

// wrong notes that no server is what the client was told.
func (s *cache) wrong() {
	if s.told {
		s.greeted.news.Wrong = true
	}
}

// cacheKey is the request without its id; "" if nothing would be kept of its answer. Without a handshake each request says who
// asks (2026-07-28).
func cacheKey(r request, k *call) string {
	switch {
	case k.method == mcp.MethodInitialize:
		return k.method
	case k.modern && (k.list != "" || k.method == mcp.MethodDiscover):
		return k.method + " " + string(r.msg.Params.Of(r.msg.Raw))
	case k.list != "":
		return k.method
	}
	return ""
}

// noteRequest notes what must be known of a request when its answer comes.
func (m *Mux) noteRequest(r request, k *call) {
	if m.Alone && r.isFirst() {
		k.list = k.rule.List
	}
	if m.Load != nil {
		k.cacheKey = cacheKey(r, k)
	}
}

// noteAnswer takes note of an answer of the server.
func (m *Mux) noteAnswer(k *call, msg mcp.Message) {
	m.server.used = m.server.used || k.method != mcp.MethodPing
	switch {
	case k.own && k.rule.List != "":
		m.listRead(k.target, msg)
	case k.list != "":
		m.learnList(k.list, msg, false)
	}
	if k.cacheKey != "" && k.method != mcp.MethodInitialize {
		m.keepAnswer(k, msg)
	}
}

// maxTTL bounds what a server may say.
const maxTTL = 7 * 24 * time.Hour

// keepAnswer keeps an answer for later sessions. The lists of a server that has worked may be the fruit of its work. From
// 2026-07-28 on the result says how long it holds (ttlMs) and for whom (cacheScope; SEP-2549). That a server of an earlier
// version does not know server/discover holds as long as the server.
func (m *Mux) keepAnswer(k *call, msg mcp.Message) {
	a := Answer{Text: []byte(`{"result":` + string(msg.Result.Of(msg.Raw)) + `}`)}
	_, paged := sumOf(msg)
	switch {
	case k.method == mcp.MethodDiscover && msg.IsError && string(mcp.ValueAt(msg.Raw, "error", "code")) == "-32601":
		a.Text = []byte(`{"error":` + string(msg.Error.Of(msg.Raw)) + `}`)
	case msg.IsError, paged:
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
	if k.modern || k.method == mcp.MethodDiscover {
		m.cache.modern.put(k.cacheKey, a)
	} else {
		m.cache.greeted.put(k.cacheKey, a)
	}
}

// publishGreeting keeps the answer to the handshake.
func (m *Mux) publishGreeting(result []byte) {
	if m.Load != nil {
		m.cache.greeted.put(mcp.MethodInitialize, Answer{Text: []byte(`{"result":` + string(result) + `}`)})
	}
}

// TakePublished gives what the server has published since the last call, and the greeting that it belongs to; nil where nothing is
// new.
func (m *Mux) TakePublished() (greeting []byte, news *Published) {
	s := &m.cache.greeted
	if m.roots.Usual && !s.known.Roots && m.handshake.line != "" {
		s.known.Roots, s.news.Roots = true, true
	}
	if greeting = []byte(m.handshake.line); !s.fresh() {
		s, greeting = &m.cache.modern, nil
	}
	if !s.fresh() {
		return nil, nil
	}
	taken := s.news
	s.news = Published{}
	return greeting, &taken
}

// tellPublished answers a request in the place of a server that has not been started, or sleeps, if that is known. The conversation
// goes on as if the server had answered.
func (m *Mux) tellPublished(c *client, r request, k *call) bool {
	if m.Load == nil {
		return false
	}
	h := &m.handshake
	if r.isFirst() {
		k.list = k.rule.List
	}
	s := &m.cache.greeted
	switch greets := k.method == mcp.MethodInitialize; {
	case greets && h.result == nil:
		s.known = m.Load(r.msg.Line)
	case k.method == mcp.MethodDiscover && h.result == nil, k.modern && h.modern && h.result == nil:
		if s = &m.cache.modern; s.known.Answers == nil {
			s.known = m.Load(nil)
		}
	case greets, k.list == "", h.phase != phaseDone:
		return false
	case s.known.Answers == nil:
		s.known = m.Load([]byte(h.line))
	}
	a := s.known.Answers[cacheKey(r, k)]
	if now := time.Now(); a.Never || len(a.Text) < 2 || !a.Until.IsZero() && (now.After(a.Until) || a.Until.Sub(now) > maxTTL) {
		return false
	}
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s`+"\n", k.id, a.Text[1:])
	msg := mcp.Parse(line)
	switch {
	case k.method == mcp.MethodInitialize:
		k.kept = r.msg.Line
		m.keepHandshake(k, msg)
		m.roots.Usual = s.known.Roots
	case k.list != "":
		m.learnList(k.list, msg, true)
	}
	if !msg.IsError && k.modern {
		m.provesModern()
		c.modern = c.modern || k.method != mcp.MethodDiscover
	}
	m.cache.told = true
	m.toClient(c, line)
	return true
}

// Told reports whether the client was told something in the place of a server.
func (m *Mux) Told() bool { return m.cache.told }

// RetractPublished says that no server could be had that is what the client was told.
func (m *Mux) RetractPublished() { m.cache.wrong() }
