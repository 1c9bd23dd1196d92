package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// restorable is what a server was asked to remember and another server can be asked again. It is the log level
// (2024-11-05 to 2025-11-25, server/utilities/logging) and subscriptions to resources (server/resources). Both are gone
// from 2026-07-28 on (changelog). A request counts once it is answered. The zero value holds nothing.
type restorable struct {
	// level are the params of the last logging/setLevel; hasLevel: there was one.
	level    []byte
	hasLevel bool
	// subscribed has the params of each subscription by its uri.
	subscribed map[string]subscription
	added      int
	// lostLevel and lost say what cannot be restored: it was too large to keep, or the server alone understood it.
	lostLevel, lost string
}

type subscription struct {
	params []byte
	order  int
}

// remembers reports whether a method is one that restorable keeps.
func remembers(method string) bool {
	return method == MethodSetLevel || method == MethodSubscribe || method == MethodUnsubscribe
}

// apply takes a request that has succeeded.
func (s *restorable) apply(r request) {
	switch {
	case r.method == MethodSetLevel:
		s.hasLevel, s.level, s.lostLevel = true, r.params, ""
		if !r.known {
			s.lostLevel = "log level cannot be restored"
		}
	case !r.known || r.target == "":
		s.lost = "subscription cannot be restored"
	case r.method == MethodSubscribe:
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

// replay gives the requests that restore this state in a new server, with ids of the relay. What the new server refuses
// is dropped.
func (s *restorable) replay(nextID func() string) []Step {
	var steps []Step
	if s.hasLevel && s.lostLevel == "" {
		steps = append(steps, repeat(nextID(), MethodSetLevel, s.level, func(m Message) []byte {
			s.hasLevel = !m.IsError
			return nil
		}))
	}
	uris := slices.SortedFunc(maps.Keys(s.subscribed), func(a, b string) int {
		return cmp.Compare(s.subscribed[a].order, s.subscribed[b].order)
	})
	for _, uri := range uris {
		steps = append(steps, repeat(nextID(), MethodSubscribe, s.subscribed[uri].params, func(m Message) []byte {
			if m.IsError {
				delete(s.subscribed, uri)
			}
			// No server watched the resource meanwhile, so it may have changed; or it is gone.
			return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"uri":%s}}`+"\n", MethodUpdated, Quote(uri))
		}))
	}
	return steps
}

func repeat(id, method string, params []byte, answered func(Message) []byte) Step {
	return Step{
		Line:    fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params),
		AwaitID: id,
		Check:   func(m Message) ([]byte, error) { return answered(m), nil },
	}
}

// withoutMeta gives the params of a request without _meta: a progress token in it must not be used again (basic/
// utilities/progress). ok is false if the request has no object as params.
func withoutMeta(raw []byte) (params []byte, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(ValueAt(raw, "params"), &members) != nil || members == nil {
		return nil, false
	}
	delete(members, "_meta")
	params, err := json.Marshal(members)
	return params, err == nil
}

// relayIDs makes the ids of requests that come from the relay itself. The zero value has used none.
type relayIDs struct {
	used, clashes int
}

func (r *relayIDs) prefix() string {
	if r.clashes == 0 {
		return "mcp-tether:"
	}
	return fmt.Sprintf("mcp-tether-%d:", r.clashes)
}

// avoid picks another prefix if the client uses this one.
func (r *relayIDs) avoid(id string) {
	for strings.HasPrefix(id, `"`+r.prefix()) {
		r.clashes++
	}
}

// next gives an id as JSON.
func (r *relayIDs) next() string {
	r.used++
	return fmt.Sprintf(`"%s%d"`, r.prefix(), r.used)
}
