package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// restorable is what a server was asked to remember and another server can be asked again. It is the log level
// (2024-11-05 to 2025-11-25, server/utilities/logging) and subscriptions to resources (server/resources). Both are gone
// from 2026-07-28 on (changelog). A request counts once it is answered. The zero value holds nothing.
type restorable struct {
	// asked has the last request for each uri that is subscribed to, and for "" the one for the log level.
	asked map[string]reminder
	added int
	// refused are the keys of what a new server has refused. It is dropped if that server is used.
	refused []string
	// lostLevel and lost say what cannot be restored: it was too large to keep, or the server alone understood it.
	lostLevel, lost string
}

// reminder is a request that is sent to a new server again. The log level comes first.
type reminder struct {
	method string
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
		r.target, s.lostLevel = "", ""
		if !r.known {
			s.lostLevel = "log level cannot be restored"
		}
	case !r.known || r.target == "":
		s.lost = "subscription cannot be restored"
		return
	}
	if !r.known || r.method == MethodUnsubscribe {
		delete(s.asked, r.target)
		return
	}
	if s.asked == nil {
		s.asked = map[string]reminder{}
	}
	again := reminder{method: r.method, params: r.params}
	if r.target != "" {
		s.added++
		again.order = s.added
	}
	s.asked[r.target] = again
}

// replay gives the requests that restore this state in a new server, with ids of the relay.
func (s *restorable) replay(nextID func() string) []Step {
	var steps []Step
	keys := slices.Collect(maps.Keys(s.asked))
	sort.SliceStable(keys, func(a, b int) bool { return s.asked[keys[a]].order < s.asked[keys[b]].order })
	for _, key := range keys {
		var tell []byte
		if key != "" {
			// No server watched the resource meanwhile, so it may have changed; or it is gone.
			tell = fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"uri":%s}}`+"\n", MethodUpdated, Quote(key))
		}
		id, again := nextID(), s.asked[key]
		steps = append(steps, Step{
			Line:    fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, again.method, again.params),
			AwaitID: id,
			Check: func(m Message) ([]byte, error) {
				if m.IsError {
					s.refused = append(s.refused, key)
				}
				return tell, nil
			},
		})
	}
	return steps
}

// accept drops what the server has refused that is used from now on.
func (s *restorable) accept() {
	for _, key := range s.refused {
		delete(s.asked, key)
	}
	s.refused = nil
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

// nextID gives an id for a request that a new server gets from the relay. Some servers take only numbers. If the client has numbers,
// it gets one that no client counts up to. Its answer comes before any request of the client is passed on.
func (c *Conversation) nextID() string {
	if id := c.handshake.id; id == "" || id[0] == '"' {
		return c.ids.next()
	}
	c.ids.used++
	return strconv.Itoa(math.MaxInt32 - c.ids.used)
}

// next gives an id as JSON.
func (r *relayIDs) next() string {
	r.used++
	return fmt.Sprintf(`"%s%d"`, r.prefix(), r.used)
}
