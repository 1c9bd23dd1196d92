package mcp

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// request is a request that was sent and not answered.
type request struct {
	id, method string
	// order is its place among all requests of its side.
	order int
	// params are kept for a request that changes what the server remembers (see restore.go), without its _meta. known is
	// false if the request was too large to keep or could not be understood.
	params []byte
	known  bool
	// target is the uri of a subscription, or the id of a task.
	target string
	// lists is the kind of list that the request asks for, and cursor says which page of it.
	lists, cursor string
	// line is the message of a subscription or for a list, agreed what the server has agreed to report; nil until then.
	line, agreed []byte
	// mayTask says that the answer may be a task.
	mayTask bool
	// modern says that the request names the protocol's version, as from 2026-07-28 on.
	modern bool
}

// matters reports whether the answer changes what is known, even if it comes after the request was cancelled.
func (r request) matters() bool { return r.mayTask || r.params != nil || !r.known }

// requests are the requests of one side. The zero value holds none.
type requests struct {
	open map[string][]request
	// cancelled holds requests whose answer may still come and would matter. Each is dropped when its id is used again.
	cancelled map[string]request
	sent      int
}

func (q *requests) add(r request) {
	if q.open == nil {
		q.open, q.cancelled = map[string][]request{}, map[string]request{}
	}
	r.order = q.sent
	q.sent++
	delete(q.cancelled, r.id)
	q.open[r.id] = append(q.open[r.id], r)
}

// answer ends the oldest request with the id; a late answer may belong to a cancelled one.
func (q *requests) answer(id string) (request, bool) {
	if r, ok := q.take(id); ok {
		return r, true
	}
	r, ok := q.cancelled[id]
	delete(q.cancelled, id)
	return r, ok
}

// cancel ends a request without an answer. "The initialize request MUST NOT be cancelled by clients" (up to 2025-11-25,
// basic/utilities/cancellation), so a server goes on with it.
func (q *requests) cancel(id string) bool {
	waiting := q.open[id]
	if len(waiting) == 0 || waiting[0].method == MethodInitialize {
		return false
	}
	r, _ := q.take(id)
	if r.matters() {
		q.cancelled[id] = r
	}
	return true
}

func (q *requests) take(id string) (request, bool) {
	waiting := q.open[id]
	switch len(waiting) {
	case 0:
		return request{}, false
	case 1:
		delete(q.open, id)
	default:
		q.open[id] = waiting[1:]
	}
	return waiting[0], true
}

// waiting lists the open requests, oldest first.
func (q *requests) waiting() []request {
	var out []request
	for _, same := range q.open {
		out = append(out, same...)
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].order < out[b].order })
	return out
}

// unanswered says for the log what is open: "2 requests of the client unanswered (tools/call, ping)".
func (q *requests) unanswered(side string) string {
	open := slices.DeleteFunc(q.waiting(), request.restorable)
	if len(open) == 0 {
		return ""
	}
	const most = 3
	var methods []string
	for _, r := range open {
		if !slices.Contains(methods, r.method) {
			methods = append(methods, r.method)
		}
	}
	if len(methods) > most {
		methods = append(methods[:most], "...")
	}
	return fmt.Sprintf("%s of the %s unanswered (%s)", count(len(open), "request"), side, strings.Join(methods, ", "))
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
