package proxy

import (
	"fmt"
	"strings"
	"testing"
)

// A note of a connection makes the session undo it at its end. So there is none, or not any more, of what the session has not
// done or has undone by itself.
func TestConnectionOfAnothersContainer(t *testing.T) {
	const base, noted = "/v1.41/networks/", "connect n c"
	for name, x := range map[string]struct {
		in       string // those that are in the network
		requests []string
		answer   string
		want     string
	}{
		"made":                       {``, []string{"n/connect"}, reply(200, ""), noted},
		"forbidden":                  {``, []string{"net/connect"}, reply(403, ""), noted + "; parted n c"},
		"there before":               {`{"Id":"d"},{"Id":"c"}`, []string{"n/connect"}, reply(200, ""), ""},
		"in one that is gone":        {`{"Id":"c","NetworkSettings":{"Networks":{"net":{"NetworkID":"old"}}}}`, []string{"n/connect"}, reply(200, ""), noted},
		"undone":                     {``, []string{"n/connect", "net/disconnect"}, reply(200, ""), noted + "; parted n c"},
		"not undone":                 {``, []string{"net/disconnect"}, reply(500, ""), ""},
		"of a network that is not":   {``, []string{"m/connect", "m/disconnect"}, reply(200, ""), ""},
		"another is in it, not this": {`{"Id":"d"}`, []string{"n/connect"}, reply(200, ""), noted},
	} {
		s := newScene(t, table(map[string]string{
			"POST /networks/create":      reply(201, `{"Id":"n"}`),
			"GET /networks":              reply(200, `[{"Id":"n","Name":"net"},{"Id":"m","Name":"m"}]`),
			"GET /containers/old/json":   reply(200, `{"Id":"c","Name":"/old"}`),
			"POST " + base + "n/connect": x.answer, "POST " + base + "net/connect": x.answer, "POST " + base + "m/connect": x.answer,
			"POST " + base + "net/disconnect": x.answer, "POST " + base + "m/disconnect": x.answer,
			"GET /containers/json?all=1&filters=%7B%22network%22:%5B%22n%22,%22net%22%5D%7D": reply(200, "["+x.in+"]"),
		}))
		c := s.client()
		c.say(post("/networks/create", "{}"))
		c.hear(reply(201, `{"Id":"n"}`))
		for _, target := range x.requests {
			c.say(post(base+target, `{"Container":"old"}`))
			c.hear(x.answer)
		}
		if got := s.connections(); got != x.want {
			t.Errorf("%s: noted %q instead of %q", name, got, x.want)
		}
	}
}

// connections are the notes about containers of others, as text.
func (s *scene) connections() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, n := range s.notes {
		if n.Container != "" {
			out = append(out, fmt.Sprintln(n.Op, n.ID, n.Container))
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(strings.Join(out, "")), "\n", "; ")
}
