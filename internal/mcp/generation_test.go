package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shown is what a client sees of a server's message.
func shown(t *testing.T, c *Conversation, text string) string {
	t.Helper()
	var out string
	err := (&Scanner{}).Feed([]byte(text+"\n"), func(m Message) {
		out = string(c.ToClient(m))
		c.FromServer(m, began())
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// passed is what a server sees of a client's answer, "" for nothing.
func passed(t *testing.T, c *Conversation, text string) string {
	t.Helper()
	var out string
	err := (&Scanner{}).Feed([]byte(text+"\n"), func(m Message) {
		if m, ok := c.ToServer(m); ok {
			out = string(m.Raw)
			c.FromClient(m, began())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A request of the second server has the id of one of the first that was never answered. The client sees another id,
// and the answer to the first reaches no server.
func TestAnswersReachTheServerThatAsked(t *testing.T) {
	const (
		consent  = `{"jsonrpc":"2.0", "id":0, "method":"elicitation/create","params":{"n":NaN,"id":0}}`
		asked    = `{"jsonrpc":"2.0", "id":"mcp-tether:1", "method":"elicitation/create","params":{"n":NaN,"id":0}}`
		late     = `{"jsonrpc":"2.0","id":0,"result":{"model":"m"}}`
		yes      = `{"result":{"action":"accept"},"id":"mcp-tether:1"}`
		delivers = `{"result":{"action":"accept"},"id":0}`
	)
	for name, ends := range map[string][]string{
		"cancelled": {ask("<", 0, "sampling/createMessage", "{}"), cancel("<", 0), "gone"},
		"open":      {ask("<", 0, "sampling/createMessage", "{}"), "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Conversation{}
			talk(t, c, slices.Concat([]string{initialize, welcome, initialized}, ends)...)
			if !c.Mixed() {
				t.Error("nothing is said to be mixed up")
			}
			if got := shown(t, c, consent); got != asked {
				t.Errorf("the client sees %s", got)
			}
			if got := passed(t, c, late); got != "" {
				t.Errorf("the late answer reaches the server as %s", got)
			}
			if got := c.MaySleep(began()); !strings.Contains(got, "elicitation/create") {
				t.Errorf("%q", got)
			}
			if got := passed(t, c, yes); got != delivers {
				t.Errorf("the answer reaches the server as %s", got)
			}
			if got := c.MaySleep(began()); got != "" || c.Mixed() {
				t.Errorf("%q", got)
			}
		})
	}
}

// A cancellation names the id that the client knows.
func TestCancellationsAreRenamed(t *testing.T) {
	c := &Conversation{}
	talk(t, c, initialize, welcome, initialized, ask("<", 0, "ping", "{}"), "gone")
	shown(t, c, ask("", 0, "elicitation/create", "{}"))
	if got := shown(t, c, cancel("", 0)); got != string(Cancelled(`"mcp-tether:1"`, "x")) {
		t.Error(got)
	}
	if got := c.MaySleep(began()); got != "" {
		t.Error(got)
	}
}

// Ids that were answered, or belong to this server, stay as they are.
func TestIDsStayWherePossible(t *testing.T) {
	c := &Conversation{}
	talk(t, c, initialize, welcome, initialized, ask("<", 0, "ping", "{}"), reply(">", 0, "{}"), "gone")
	if c.Mixed() {
		t.Error("mixed up")
	}
	for _, text := range []string{ask("", 0, "roots/list", "{}"), ask("", 1, "roots/list", "{}"), cancel("", 1)} {
		if got := shown(t, c, text); got != text {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	// The same server's late answer is its own affair.
	if got := passed(t, c, reply("", 1, "{}")); got == "" {
		t.Error("an answer to this server is withheld")
	}
	for range 2 {
		if open := c.ServerGone(); len(open) > 1 || len(open) == 1 && open[0] != "0" {
			t.Errorf("open: %v", open)
		}
	}
}

// More than maxOwed requests without an answer are not remembered: the server stays awake instead.
func TestOwedAnswersAreBounded(t *testing.T) {
	c := &Conversation{}
	talk(t, c, initialize, welcome, initialized)
	for id := range maxOwed + 1 {
		if got := c.MaySleep(began()); got != "" {
			t.Fatalf("%d: %q", id, got)
		}
		talk(t, c, ask("<", id, "ping", "{}"), cancel("<", id))
	}
	if got := c.MaySleep(began()); got == "" {
		t.Error("it may sleep")
	}
}

// Two servers and a client do what they may do with one id, in all orders. No answer reaches a server that has not
// asked for it. Each answer to a server that still waits reaches it.
func TestGenerationsModel(t *testing.T) {
	const depth = 7
	events := []string{"ask", "cancel", "answer", "next"}
	for n := range pow(len(events), depth) {
		m := &twoServers{c: &Conversation{}}
		talk(t, m.c, initialize, welcome, initialized)
		for i := n; len(m.path) < depth; i /= len(events) {
			m.do(t, events[i%len(events)])
		}
	}
}

func pow(base, n int) int {
	out := 1
	for range n {
		out *= base
	}
	return out
}

// twoServers is a client that answers in the order in which it was asked, and servers that each ask with the id 0.
type twoServers struct {
	c    *Conversation
	path []string
	// server counts the servers, open says that the present one waits for an answer.
	server int
	open   bool
	// asked are the ids that the client has seen, each with the server that sent it.
	asked []question
}

type question struct {
	id     string
	server int
	dead   bool
}

func (m *twoServers) do(t *testing.T, event string) {
	t.Helper()
	m.path = append(m.path, event)
	switch event {
	case "ask":
		if m.open {
			return
		}
		text := shown(t, m.c, ask("", 0, "elicitation/create", "{}"))
		_ = (&Scanner{}).Feed([]byte(text+"\n"), func(q Message) { m.asked = append(m.asked, question{id: q.ID, server: m.server}) })
		m.open = true
	case "cancel":
		shown(t, m.c, cancel("", 0))
		m.open = false
		for i := range m.asked {
			m.asked[i].dead = m.asked[i].dead || m.asked[i].server == m.server
		}
	case "answer":
		if len(m.asked) == 0 {
			return
		}
		q := m.asked[0]
		m.asked = m.asked[1:]
		got := passed(t, m.c, reply("", q.id, `{}`))
		switch {
		case q.server != m.server && got != "":
			t.Fatalf("%v: server %d gets the answer to server %d", m.path, m.server, q.server)
		case q.server == m.server && !q.dead && got != reply("", 0, "{}"):
			t.Fatalf("%v: server %d gets %q", m.path, m.server, got)
		}
		if q.server == m.server && !q.dead {
			m.open = false
		}
	case "next":
		m.c.ServerGone()
		m.server++
		m.open = false
		for i := range m.asked {
			m.asked[i].dead = true
		}
	default:
		panic(fmt.Sprint(event))
	}
}
