package mcp

import (
	"encoding/json"
	"fmt"
	"time"
)

// Published is what a server says of itself before it has any work. A later session may tell its client the same, and start
// the server when that is not enough.
type Published struct {
	// Reply is the result of initialize.
	Reply json.RawMessage `json:"reply"`
	// Roots says that the server asks for the client's roots at its start.
	Roots bool `json:"roots,omitempty"`
	// Lists has the results of the requests for each list, page by page. A list is known whole or not at all. One that is
	// empty must not be told: it differs from one start to the next, and the client could not be told of that.
	Lists map[string][]json.RawMessage `json:"lists,omitempty"`
	// Answer is what a request of 2026-07-28 was answered with, an object with result or error; Until when that holds.
	Answer json.RawMessage `json:"answer,omitempty"`
	Until  time.Time       `json:"until,omitzero"`
	// Wrong says that a server is not what its client was told. It is never written down.
	Wrong bool `json:"-"`
}

// Add takes what is newer. A list that is nil there is not known any more. With another reply all lists are unknown, but
// for those that must not be told.
func (p *Published) Add(newer Published) {
	before := p.Lists
	if p.Reply == nil || !SameJSON(p.Reply, newer.Reply) {
		*p = Published{Reply: newer.Reply}
	}
	p.Roots = p.Roots || newer.Roots
	for _, kind := range kinds() {
		pages, is := newer.Lists[kind]
		switch untold := before[kind] != nil && len(before[kind]) == 0; {
		case untold:
			p.set(kind, before[kind])
		case is:
			p.set(kind, pages)
		}
	}
}

func (p *Published) set(kind string, pages []json.RawMessage) {
	if p.Lists == nil {
		p.Lists = map[string][]json.RawMessage{}
	}
	p.Lists[kind] = pages
}

// page is the page of a list that a cursor asks for; nil where it is not known.
func (p *Published) page(kind, cursor string) json.RawMessage {
	next := ""
	for i, page := range p.Lists[kind] {
		if next == cursor && (i == 0) == (cursor == "") {
			return page
		}
		next = textAt(page, "nextCursor")
	}
	return nil
}

// publication is what is gathered of the present server. The zero value gathers nothing.
type publication struct {
	on   bool
	news Published
	// reply and roots say that these are known already.
	reply, roots bool
	answers      answers
}

// Publish begins to gather what the server publishes, for TakePublished.
func (c *Conversation) Publish() { c.publication.on, c.lists.keeps = true, true }

// TakePublished gives something that the server has published since the last call, and the request that it has answered,
// which is the initialize as a rule; nil where nothing is new.
func (c *Conversation) TakePublished() (request []byte, news Published) {
	p := &c.publication
	if fresh := p.answers.fresh; len(fresh) > 0 {
		p.answers.fresh = fresh[1:]
		return fresh[0].request, fresh[0].Published
	}
	if !p.on || c.handshake.latest == nil || c.handshake.request == nil {
		return nil, Published{}
	}
	if c.roots.usual && !p.roots {
		p.news.Roots, p.roots = true, true
	}
	if p.reply && !p.news.Roots && !p.news.Wrong && p.news.Lists == nil {
		return nil, Published{}
	}
	news, p.news, p.reply = p.news, Published{}, true
	news.Reply = c.handshake.latest
	return c.handshake.request, news
}

// Greeting is the client's initialize; nil where there was none, or it was too large to keep.
func (c *Conversation) Greeting() []byte { return c.handshake.request }

// publish notes what is known of a list: see Published. The lists of a server that has worked may be the fruit of its work.
func (c *Conversation) publish(kind string, pages []json.RawMessage) {
	if c.publication.on && !c.roots.working {
		c.publication.news.set(kind, pages)
	}
}

// forgetLists notes that the server has said that a list has changed.
func (c *Conversation) forgetLists(method string) {
	for _, kind := range kinds() {
		if method != changedMethod(kind) {
			continue
		}
		c.publish(kind, nil)
		c.publication.answers.forget(kind)
		if p := c.lists.read[kind]; p != nil {
			p.results = nil
		}
	}
}

// TellPublished answers a message in the place of a server that has not been started, or sleeps. load gives what is known of the
// server that answers an initialize. The line is nil where a server is needed, and empty where there is no answer. The
// conversation goes on as if the server had answered.
func (c *Conversation) TellPublished(m Message, load func(request []byte) *Published, now time.Time) (line []byte) {
	if m.Method == MethodInitialized && m.Raw != nil && c.handshake.answered && !c.handshake.confirmed {
		c.FromClient(m, now)
		return []byte{}
	}
	member, value := "result", c.resultPublished(m, load)
	if answer := c.answerPublished(m, load, now); answer != nil {
		if value = ValueAt(answer, member); value == nil {
			member, value = "error", ValueAt(answer, "error")
		}
	}
	if value == nil {
		return nil
	}
	line = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%q:%s}`, m.ID, member, value)
	c.FromClient(m, now)
	c.FromServer(Message{ID: m.ID, Kind: Response, Raw: line, IsError: member == "error"}, now)
	// No server has said anything.
	p := &c.publication
	p.news, p.answers.fresh, p.reply, p.roots = Published{}, nil, c.handshake.answered, c.roots.usual
	if kind, _ := listKind(m); c.lists.read[kind] != nil {
		c.lists.read[kind].unproven = true
	}
	return append(line, '\n')
}

func (c *Conversation) resultPublished(m Message, load func(request []byte) *Published) json.RawMessage {
	kind, cursor := listKind(m)
	switch {
	case !m.asks() || m.Raw == nil:
	case m.Method == MethodInitialize && !c.handshake.begun:
		if p := load(m.Raw); p != nil {
			c.roots.usual = p.Roots
			return p.Reply
		}
	case kind != "" && c.handshake.done() && c.handshake.lost() == "" && !c.lists.isStale(kind):
		if p := load(c.handshake.request); p != nil && SameJSON(p.Reply, c.handshake.latest) {
			return p.page(kind, cursor)
		}
	}
	return nil
}
