package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// lists has a hash of each page that the client has read of the server's lists: tools, prompts, resources. If a new
// server has other lists, the client is told to look again (up to 2025-11-25, server/tools, "List Changed
// Notification"). It is told with each new server until it has. The zero value knows none.
type lists struct {
	seed maphash.Seed
	read map[string]*pages
	// keeps says that the results are kept until a list is whole.
	keeps bool
}

// pages are the pages of a list that the client has read, from the first on (server/utilities/pagination).
type pages struct {
	sums []uint64
	// cursors has the cursor with which to ask for each page, "" for the first. There may be one more cursor than there
	// are sums.
	cursors []string
	// stale says that the client was told to read the list again, or could not, and has not done so since.
	stale bool
	// unproven says that the client was told the list in the place of the server, see TellPublished.
	unproven bool
	// results are what the sums are of, from the first page on, until the list is whole.
	results []json.RawMessage
}

// maxPages bounds what is known of a list, and so how often a new server is asked for a page of it.
const maxPages = 64

// listKind is the kind of list that a request asks for, "" if it does not, and for which page of it.
func listKind(m Message) (kind, cursor string) {
	kind, ok := strings.CutSuffix(m.Method, "/list")
	if !ok || m.Raw == nil || !slices.Contains(kinds(), kind) {
		return "", ""
	}
	if mentions(m.Raw, "cursor") {
		cursor = textAt(m.Raw, "params", "cursor")
	}
	return kind, cursor
}

// learn takes the answer to a request of the client for a page. The pages behind it are forgotten: the client reads
// them anew, or they no longer exist.
func (l *lists) learn(kind, cursor string, m Message) {
	if l.read == nil {
		l.seed, l.read = maphash.MakeSeed(), map[string]*pages{}
	}
	if cursor == "" {
		l.read[kind] = &pages{cursors: []string{""}}
	}
	p := l.read[kind]
	if p == nil {
		return
	}
	at := slices.Index(p.cursors, cursor)
	if at < 0 || at == maxPages {
		return
	}
	p.sums, p.cursors = p.sums[:at], p.cursors[:at+1]
	if p.results = p.results[:min(at, len(p.results))]; l.take(p, m) && l.keeps {
		p.results = append(p.results, bytes.Clone(ValueAt(m.Raw, "result")))
	}
}

// whole gives the pages of a list that the client has just read to its end; nil before that.
func (l *lists) whole(kind string) (pages []json.RawMessage) {
	p := l.read[kind]
	if p == nil || len(p.results) == 0 || len(p.results) != len(p.cursors) {
		return nil
	}
	pages, p.results = p.results, nil
	return pages
}

// isStale reports whether the client was told to read a list again.
func (l *lists) isStale(kind string) bool { return l.read[kind] != nil && l.read[kind].stale }

// expire takes an error in place of a page. The client may have asked because the list had changed.
func (l *lists) expire(kind string) {
	if p := l.read[kind]; p != nil {
		p.stale = true
	}
}

// take takes the next page of a list, and reports whether it is one.
func (l *lists) take(p *pages, m Message) bool {
	var page map[string]json.RawMessage
	if m.IsError || json.Unmarshal(ValueAt(m.Raw, "result"), &page) != nil || page == nil {
		return false
	}
	next := textAt(m.Raw, "result", "nextCursor")
	delete(page, "nextCursor") // Another server may have another cursor for the same page,
	delete(page, "_meta")      // and what is said about an answer may differ each time.
	page["more"] = fmt.Append(nil, next != "")
	text, err := json.Marshal(page)
	if err != nil {
		return false
	}
	p.sums = append(p.sums, maphash.Bytes(l.seed, text))
	if next != "" {
		p.cursors = append(p.cursors, next)
	}
	return true
}

// checkHandshake takes a new server's answer to initialize, and tells the client which lists to read again. These are all,
// if the server may have others, and else those that are stale.
func (c *Conversation) checkHandshake(m Message) (tell []byte, err error) {
	differs, err := c.handshake.check(m)
	if c.publication.reply = false; err != nil {
		c.publication.news.Wrong = errors.Is(err, ErrChanged)
		return nil, err
	}
	for _, kind := range kinds() {
		p := c.lists.read[kind]
		if p == nil {
			p = &pages{}
		}
		if p.stale = p.stale || differs; p.stale && !bytes.Contains(tell, c.handshake.changed(kind)) {
			tell = append(tell, c.handshake.changed(kind)...)
		}
	}
	return tell, nil
}

// readLists reads again each list that the client knows may change, as far as the client has read it. A stale one was
// told of with the handshake. Of a list that may not change the client must have read what this server has.
func (c *Conversation) readLists() []Step {
	var steps []Step
	for _, kind := range kinds() {
		if p := c.lists.read[kind]; p == nil || len(p.sums) == 0 {
			continue
		} else if may := c.handshake.changed(kind) != nil; may && !p.stale || !may && p.unproven {
			steps = append(steps, c.readPage(kind, p, &pages{cursors: []string{""}}))
		}
	}
	return steps
}

// readPage reads the next page of a list again. before is the list as the client has it, now the part that was read
// again.
func (c *Conversation) readPage(kind string, before, now *pages) Step {
	id, at := c.nextID(), len(now.sums)
	params := ""
	if at > 0 {
		params = fmt.Sprintf(`,"params":{"cursor":%s}`, Quote(now.cursors[at]))
	}
	same := false
	return Step{
		Line:    fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"%s/list"%s}`+"\n", id, kind, params),
		AwaitID: id,
		Check: func(m Message) ([]byte, error) {
			if same = c.lists.take(now, m) && now.sums[at] == before.sums[at]; same {
				before.unproven = before.unproven && len(now.sums) < len(before.sums)
				return nil, nil
			}
			tell := c.handshake.changed(kind)
			if tell == nil {
				c.publish(kind, []json.RawMessage{})
				return nil, fmt.Errorf("%w: its list of %s is not the one that the client was given", ErrChanged, kind)
			}
			c.publish(kind, nil)
			// What the client has read stays noted: nobody knows whether this server will live to be asked.
			return tell, nil
		},
		More: func() []Step {
			if same && len(now.sums) < len(before.sums) {
				return []Step{c.readPage(kind, before, now)}
			}
			return nil
		},
	}
}
