package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// restorable is what a server was told to remember and another can be told again: the log level (2024-11-05 to
// 2025-11-25, server/utilities/logging) and subscriptions to resources (server/resources). Both are gone from 2026-07-28
// on (changelog). Requests count when they are answered, in the order of the answers. Zero value: nothing.
type restorable struct {
	// level are the params of the last logging/setLevel; hasLevel: there was one.
	level    []byte
	hasLevel bool
	// subscribed has the params of each subscription by its uri.
	subscribed map[string]subscription
	added      int
	// lostLevel and lost say what was too large to keep or made no sense to us, though it did to the server.
	lostLevel, lost string
}

type subscription struct {
	params []byte
	order  int
}

// remembers reports whether a method is one that restorable keeps.
func remembers(method string) bool {
	return method == methodSetLevel || method == methodSubscribe || method == methodUnsubscribe
}

// apply takes a request that has succeeded.
func (s *restorable) apply(r request) {
	switch {
	case r.method == methodSetLevel:
		s.hasLevel, s.level, s.lostLevel = true, r.params, ""
		if !r.known {
			s.lostLevel = "log level cannot be restored"
		}
	case !r.known || r.target == "":
		s.lost = "subscription cannot be restored"
	case r.method == methodSubscribe:
		s.subscribe(r)
	default:
		delete(s.subscribed, r.target)
	}
}

func (s *restorable) subscribe(r request) {
	if s.subscribed == nil {
		s.subscribed = map[string]subscription{}
	}
	s.added++
	s.subscribed[r.target] = subscription{r.params, s.added}
}

// replay asks a new server for the same again, with ids of ours.
func (s *restorable) replay(nextID func() string) []Step {
	var steps []Step
	if s.hasLevel && s.lostLevel == "" {
		steps = append(steps, again(nextID(), methodSetLevel, s.level))
	}
	uris := slices.SortedFunc(maps.Keys(s.subscribed), func(a, b string) int {
		return cmp.Compare(s.subscribed[a].order, s.subscribed[b].order)
	})
	for _, uri := range uris {
		step := again(nextID(), methodSubscribe, s.subscribed[uri].params)
		// Nobody watched the resource meanwhile, so it may have changed.
		step.Tell = fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"uri":%s}}`+"\n", methodUpdated, quote(uri))
		steps = append(steps, step)
	}
	return steps
}

func again(id, method string, params []byte) Step {
	return Step{
		Line:    fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params),
		AwaitID: id,
		Check: func(m Message) error {
			if m.IsError {
				return fmt.Errorf("the server refuses %s that it accepted before: %s", method, failure(m))
			}
			return nil
		},
	}
}

// withoutMeta gives the params of a request without _meta: a progress token in it must not be used again (basic/
// utilities/progress). ok is false if there are none to be known.
func withoutMeta(raw []byte) (params []byte, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(dig(raw, "params"), &members) != nil || members == nil {
		return nil, false
	}
	delete(members, "_meta")
	params, err := json.Marshal(members)
	return params, err == nil
}

// ownIDs are ids of requests that a relay makes. Zero value: none used.
type ownIDs struct {
	used, clashes int
}

func (o *ownIDs) prefix() string {
	if o.clashes == 0 {
		return "mcp-tether:"
	}
	return fmt.Sprintf("mcp-tether-%d:", o.clashes)
}

// avoid picks another prefix if the client uses this one.
func (o *ownIDs) avoid(id string) {
	for strings.HasPrefix(id, `"`+o.prefix()) {
		o.clashes++
	}
}

// next gives an id as JSON.
func (o *ownIDs) next() string {
	o.used++
	return fmt.Sprintf(`"%s%d"`, o.prefix(), o.used)
}
