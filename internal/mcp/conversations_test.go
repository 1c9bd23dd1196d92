package mcp

import (
	"slices"
	"strings"
	"testing"
)

// event is something that can happen in a conversation of the model, and what it is about.
type event struct {
	line string
	// kind: "ask", "answer", "refuse", "cancel" or "" for what the oracle does not count.
	kind, side, id string
}

// events of both sides, with ids that clash.
func events() []event {
	out := []event{
		{line: initialize, kind: "ask", side: ">", id: "0"}, {line: welcome, kind: "answer", side: ">", id: "0"},
		{line: refuse("<", 0, -32602), kind: "refuse", side: ">", id: "0"}, {line: cancel(">", 0), kind: "cancel", side: ">", id: "0"},
		{line: initialized}, {line: "gone"},
	}
	for _, side := range []string{">", "<"} {
		other := map[string]string{">": "<", "<": ">"}[side]
		out = append(out,
			event{ask(side, 1, "ping", "{}"), "ask", side, "1"},
			event{reply(other, 1, "{}"), "answer", side, "1"},
			event{cancel(side, 1), "cancel", side, "1"},
		)
	}
	return out
}

// naive says whether a server may sleep after a history, by looking back at all of it.
func naive(history []event) bool {
	return open(history, ">") == 0 && open(history, "<") == 0 && met(history)
}

func open(history []event, side string) int {
	waiting := map[string]int{}
	for _, e := range history {
		switch {
		case e.line == "gone" && side == "<":
			clear(waiting)
		case e.side != side:
		case e.kind == "ask":
			waiting[e.id]++
		case e.kind == "cancel" && e.id == "0":
		case waiting[e.id] > 0:
			waiting[e.id]--
		}
	}
	sum := 0
	for _, n := range waiting {
		sum += n
	}
	return sum
}

// met: since the last initialize that was not refused, a good answer that is not for an earlier one has come, and the client's
// notification.
func met(history []event) bool {
	last := -1
	for i, e := range history {
		if e.line == initialize {
			last = i
		}
	}
	if last < 0 {
		return false
	}
	if slices.ContainsFunc(history[last:], func(e event) bool { return e.kind == "refuse" && e.id == "0" }) {
		return met(history[:last])
	}
	// Nothing tells two open requests with one id apart; see TestConversationsAgreeWithTheOracle.
	answered := slices.ContainsFunc(history[last:], func(e event) bool { return e.line == welcome })
	return answered && slices.ContainsFunc(history[last:], func(e event) bool { return e.line == initialized })
}

// ambiguous: initialize is asked while another with the same id is open, or answered twice.
func ambiguous(history []event) bool {
	waiting := 0
	for _, e := range history {
		switch {
		case e.line == initialize:
			waiting++
		case e.id == "0" && (e.kind == "answer" || e.kind == "refuse"):
			waiting--
		}
		if waiting < 0 || waiting > 1 {
			return true
		}
	}
	return false
}

// Breadth-first over all histories of up to four events, from the beginning and after a handshake. Conversation says
// the same as a look back at everything.
func TestConversationsAgreeWithTheOracle(t *testing.T) {
	const depth = 4
	all := events()
	handshake := []event{all[0], all[1], all[4]}
	layer, checked, slept := [][]event{nil, handshake}, 0, 0
	for range depth {
		var next [][]event
		for _, history := range layer {
			for _, e := range all {
				longer := append(slices.Clip(history), e)
				if ambiguous(longer) {
					continue
				}
				next = append(next, longer)
				checked++
				if agree(t, longer) {
					slept++
				}
			}
		}
		layer = next
	}
	if checked < 20000 || slept < 500 {
		t.Errorf("only %d histories were looked at, and %d servers slept", checked, slept)
	}
}

// agree compares one history, and says whether the server may sleep.
func agree(t *testing.T, history []event) bool {
	t.Helper()
	c := &Conversation{}
	var lines []string
	for _, e := range history {
		lines = append(lines, e.line)
	}
	now := talk(t, c, lines...)
	reason := c.MaySleep(now)
	if (reason == "") != naive(history) || len(c.Pending(false)) != open(history, ">") {
		t.Fatalf("%q, %d pending after\n%s", reason, len(c.Pending(false)), strings.Join(lines, "\n"))
	}
	if steps := len(c.Replay()); reason == "" && steps != 2 {
		t.Fatalf("%d steps after\n%s", steps, strings.Join(lines, "\n"))
	}
	return reason == ""
}

// FuzzHistory compares a conversation with a look back at all of it, after histories longer than those above.
func FuzzHistory(f *testing.F) {
	all := events()
	f.Add([]byte{0, 1, 4, 6, 7, 5})
	f.Fuzz(func(t *testing.T, picks []byte) {
		var history []event
		for _, p := range picks[:min(len(picks), 40)] {
			if longer := append(slices.Clip(history), all[int(p)%len(all)]); !ambiguous(longer) {
				history = longer
			}
		}
		agree(t, history)
	})
}

// Whatever both sides say, nothing breaks, and no server sleeps while a request of either side waits.
func FuzzConversation(f *testing.F) {
	for _, seed := range [][]string{
		{initialize, welcome, initialized, ask(">", 1, "tools/call", `{"task":{}}`), reply("<", 1, `{"task":{"taskId":"t","ttl":1}}`)},
		{ask(">", 1, "resources/subscribe", `{"uri":"a"}`), reply("<", 1, "{}"), ask(">", 2, "logging/setLevel", `[]`), reply("<", 2, "{}")},
		{ask(">", 1, "tasks/list", "{}"), reply("<", 1, `{"tasks":[1,{"taskId":5}]}`), `<{"method":"notifications/tasks","params":7}`},
	} {
		f.Add(strings.Join(seed, "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &Conversation{}
		for line := range strings.SplitSeq(text, "\n") {
			if line != "" && (line[0] == '>' || line[0] == '<') {
				say(t, c, line[0], line[1:], false, began())
			}
		}
		waiting := len(c.Pending(false)) + len(c.server.requests.waiting())
		if reason := c.MaySleep(began()); reason == "" && waiting > 0 {
			t.Fatalf("asleep with %d requests", waiting)
		}
		for _, s := range c.Replay() {
			if s.Line != nil {
				checkLine(t, s.Line)
			}
			if s.Line == nil || s.Check == nil {
				continue
			}
			if tell, _ := s.Check(Message{Kind: Response, IsError: true, Raw: []byte("{}")}); tell != nil {
				checkLine(t, tell)
			}
		}
		for _, id := range c.Pending(false) {
			checkLine(t, ErrorReply(id, text))
		}
	})
}

// checkLine: what we make is one line of JSON.
func checkLine(t *testing.T, line []byte) {
	t.Helper()
	n := 0
	err := (&Scanner{}).Feed(line, func(m Message) {
		if n++; m.Kind == Opaque {
			t.Errorf("%q is no message", line)
		}
	})
	if err != nil || n != 1 {
		t.Errorf("%q: %v, %d messages", line, err, n)
	}
}
