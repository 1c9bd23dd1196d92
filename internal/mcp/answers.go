package mcp

import (
	"bytes"
	"encoding/json"
	"time"
)

// From 2026-07-28 on there is no handshake, each request says who asks, and the result of a list or of server/discover says
// how long it holds (ttlMs, in milliseconds) and for whom (cacheScope; SEP-2549). Clients ask servers of earlier versions as
// well, and then greet them: that such a server does not know the method holds as long as the server.

// maxTTL bounds what a server may say.
const maxTTL = 7 * 24 * time.Hour

// answers are those that later sessions may give. The zero value has none.
type answers struct {
	// asked are the requests that wait for one, by id; kept are those whose lists later sessions know, by kind.
	asked, kept map[string][]byte
	fresh       []freshAnswer
}

type freshAnswer struct {
	request []byte
	Published
}

// ask takes a request of the client.
func (a *answers) ask(m Message) {
	if kind, _ := listKind(m); m.Raw == nil || m.Method != MethodDiscover && (kind == "" || !saysVersion(m.Raw)) {
		return
	}
	if a.asked == nil {
		a.asked, a.kept = map[string][]byte{}, map[string][]byte{}
	}
	a.asked[m.ID] = bytes.Clone(m.Raw)
}

// take takes the answer to a request.
func (a *answers) take(r request, m Message, now time.Time) {
	request := a.asked[m.ID]
	if delete(a.asked, m.ID); request == nil || m.Raw == nil {
		return
	}
	news := Published{Answer: []byte(`{"result":` + string(ValueAt(m.Raw, "result")) + `}`)}
	if m.IsError {
		if r.method != MethodDiscover || string(ValueAt(m.Raw, "error", "code")) != "-32601" {
			return
		}
		news.Answer = []byte(`{"error":` + string(ValueAt(m.Raw, "error")) + `}`)
	} else if news.Until = holdsUntil(ValueAt(m.Raw, "result"), now); news.Until.IsZero() || r.cursor != "" {
		return
	}
	a.kept[r.lists] = request
	a.fresh = append(a.fresh, freshAnswer{request, news})
}

// holdsUntil is the time until which a result may be given to the same user; zero where it may not. One page of many is
// of no use without the others.
func holdsUntil(result json.RawMessage, now time.Time) time.Time {
	var ttl int64
	scope := textAt(result, "cacheScope")
	if json.Unmarshal(ValueAt(result, "ttlMs"), &ttl) != nil || ttl <= 0 || scope != "public" && scope != "private" || textAt(result, "nextCursor") != "" {
		return time.Time{}
	}
	return now.Add(time.Duration(min(ttl, maxTTL.Milliseconds())) * time.Millisecond)
}

// forget takes the news that a list has changed.
func (a *answers) forget(kind string) {
	if request := a.kept[kind]; request != nil {
		a.fresh = append(a.fresh, freshAnswer{request, Published{Wrong: true}})
		delete(a.kept, kind)
	}
}

// answerPublished gives the answer to a request without a handshake; nil where none is known, or none holds.
func (c *Conversation) answerPublished(m Message, load func(request []byte) *Published, now time.Time) json.RawMessage {
	kind, _ := listKind(m)
	fits := m.Method == MethodDiscover || c.modern && kind != "" && saysVersion(m.Raw)
	if !m.asks() || m.Raw == nil || !fits || c.handshake.begun || c.lists.isStale(kind) {
		return nil
	}
	p := load(m.Raw)
	if p == nil || p.Answer == nil || !p.Until.IsZero() && (now.After(p.Until) || p.Until.Sub(now) > maxTTL) {
		return nil
	}
	return p.Answer
}
