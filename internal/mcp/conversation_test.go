package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Lines of the handshake, as the tests' client and server write them.
const (
	initialize  = `>{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	welcome     = `<{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}`
	initialized = `>{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// began is when the tests' conversations begin; a line "+5s" lets time pass.
func began() time.Time { return time.Date(2025, 11, 25, 0, 0, 0, 0, time.UTC) }

// talk has the lines said: > by the client, < by the server, "+" for time, "gone" for the end of the server, "used" when
// it takes the place of the last one. A line that begins with ~ after the sign is too large to keep.
func talk(t testing.TB, c *Conversation, lines ...string) time.Time {
	t.Helper()
	now := began()
	for _, line := range lines {
		if line == "gone" {
			c.ServerGone()
			continue
		}
		if line == "used" {
			c.Accepted()
			continue
		}
		if pause, ok := strings.CutPrefix(line, "+"); ok {
			d, err := time.ParseDuration(pause)
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(d)
			continue
		}
		text, large := strings.CutPrefix(line[1:], "~")
		say(t, c, line[0], text, large, now)
	}
	return now
}

func say(t testing.TB, c *Conversation, side byte, text string, large bool, now time.Time) {
	t.Helper()
	s := &Scanner{}
	if large {
		s.Keep = 1
	}
	err := s.Feed([]byte(text+"\n"), func(m Message) {
		if side == '>' {
			c.FromClient(m, now)
		} else {
			c.FromServer(m, now)
		}
		for i := range m.Raw { // Nothing may have kept it.
			m.Raw[i] = '!'
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ask(side string, id any, method, params string) string {
	return fmt.Sprintf(`%s{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, side, id, method, params)
}

func reply(side string, id any, result string) string {
	return fmt.Sprintf(`%s{"jsonrpc":"2.0","id":%v,"result":%s}`, side, id, result)
}

func refuse(side string, id any, code int) string {
	return fmt.Sprintf(`%s{"jsonrpc":"2.0","id":%v,"error":{"code":%d,"message":"no"}}`, side, id, code)
}

func cancel(side string, id any) string {
	return fmt.Sprintf(`%s{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%v,"reason":"x"}}`, side, id)
}

func taskOf(status, ttl string) string {
	return fmt.Sprintf(`{"taskId":"t","status":%q,"createdAt":"2025-11-25T00:00:00Z","ttl":%s}`, status, ttl)
}

const (
	modernMeta = `{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`
	modernTask = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`
	newTask    = `{"resultType":"task","taskId":"t","status":"working","ttlMs":60000}`
)

type sleepCase struct {
	name  string
	lines []string
	want  string
}

func checkSleep(t *testing.T, before []string, cases []sleepCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			c := &Conversation{}
			now := talk(t, c, slices.Concat(before, tt.lines)...)
			if got := c.MaySleep(now); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestMaySleepOnlyAfterTheHandshake(t *testing.T) {
	const unfinished = "handshake unfinished"
	checkSleep(t, nil, []sleepCase{
		{"done", []string{initialize, welcome, initialized}, ""},
		{"second", []string{initialize, welcome, initialized, strings.Replace(initialize, `"id":0`, `"id":5`, 1)}, unfinished},
		{"second, refused", []string{initialize, welcome, initialized, strings.Replace(initialize, `"id":0`, `"id":5`, 1), refuse("<", 5, -32600)}, ""},
		{"second, only the first answered", []string{initialize, strings.Replace(initialize, `"id":0`, `"id":5`, 1), welcome, initialized}, unfinished},
		{"too large to repeat", []string{">~" + initialize[1:], welcome, initialized}, "handshake of the client too large to repeat"},
		{"reply too large", []string{initialize, "<~" + welcome[1:], initialized}, "handshake reply of the server too large or too odd to compare"},
		{"reply odd", []string{initialize, reply("<", 0, "[]"), initialized}, "handshake reply of the server too large or too odd to compare"},

		{"discovered", []string{ask(">", 1, "server/discover", modernMeta), reply("<", 1, "{}")}, ""},
		{"probed in vain", []string{ask(">", 1, "server/discover", modernMeta), refuse("<", 1, -32601)}, unfinished},
		{"probed in vain, then met", []string{ask(">", 1, "server/discover", modernMeta), refuse("<", 1, -32601), initialize, welcome, initialized}, ""},
		{"version in the request", []string{ask(">", 1, "tools/call", modernMeta), reply("<", 1, "{}")}, ""},
		{"no version in the request", []string{ask(">", 1, "tools/call", `{"_meta":{},"x":"protocolVersion"}`), reply("<", 1, "{}")}, unfinished},
		{"subscribed", []string{listen, agreed}, ""},
		{"subscribed, not acknowledged", []string{listen}, unfinished},
		{"subscribed, then asked", []string{listen, agreed, initialize}, "1 request of the client unanswered (initialize)"},
		{"subscribed, then answered", []string{listen, agreed, initialize, welcome}, unfinished},
		{"answered, then subscribed", []string{initialize, welcome, listen, agreed}, unfinished},
		{"subscribed amid a handshake, which begins anew", []string{initialize, welcome, listen, agreed, initialize, refuse("<", 0, -32602)}, unfinished},
		{"old client, new server, then a new client", []string{initialize, refuse("<", 0, -32602), ask(">", 1, "tools/list", modernMeta), reply("<", 1, "{}")}, ""},
		{"both eras", []string{ask(">", 1, "tools/list", modernMeta), reply("<", 1, "{}"), initialize, welcome}, unfinished},
	})
}

func TestMaySleepOnlyWithoutRequests(t *testing.T) {
	call := ask(">", 1, "tools/call", `{"name":"x"}`)
	roots := ask("<", 1, "roots/list", "{}")
	const waits = "1 request of the client unanswered (tools/call)"
	const unread = "a message that could not be read"
	checkSleep(t, []string{initialize, welcome, initialized}, []sleepCase{
		{"asked", []string{call}, waits},
		{"answered with other spelling", []string{call, reply("<", "1.0", "{}")}, ""},
		{"refused", []string{call, refuse("<", 1, -32000)}, ""},
		{"another answered", []string{call, reply("<", 2, "{}")}, waits},
		{"text is no number", []string{call, reply("<", `"1"`, "{}")}, waits},
		{"error of nobody", []string{call, refuse("<", "null", -32700)}, waits},
		{"another cancelled", []string{call, cancel(">", 2)}, waits},
		{"cancelled without id", []string{call, `>{"method":"notifications/cancelled"}`}, waits},
		{"too large", []string{">~" + call[1:]}, waits},
		{"too large and answered", []string{">~" + call[1:], "<~" + reply("", 1, "{}")}, ""},
		{"id null", []string{ask(">", "null", "ping", "{}")}, unread},
		{"id null, long ago", []string{ask(">", "null", "ping", "{}"), "+1h"}, ""},
		{"id null of the server", []string{ask("<", "null", "ping", "{}")}, unread},
		{"id true", []string{ask(">", "true", "tools/call", "{}")}, waits},
		{"id true, answered", []string{ask(">", "true", "tools/call", "{}"), reply("<", "true", "{}")}, ""},
		{"id of 5,000 characters", []string{ask(">", `"`+strings.Repeat("a", 5000)+`"`, "tools/call", "{}")}, waits},
		{"NaN in the request", []string{ask(">", 1, "tools/call", `{"x":NaN}`)}, waits},
		{"NaN in the answer", []string{call, reply("<", 1, `{"x":[NaN,-Infinity]}`)}, ""},
		{"a batch too large", []string{">[" + strings.Repeat(`{"id":1,"method":"x"},`, maxBatch) + `{"id":1,"method":"x"}]`}, unread},
		{"no JSON, but perhaps a message", []string{`>{'id':1,"method":"tools/call"}`, "+59m"}, unread},
		{"a log line", []string{`<{debug} ready`, `<[INFO] listening`, `<[2026-11-24 10:00:00] up`, `<[7] {"id":1}`, `<[:] x`}, ""},
		{"no log line", []string{`<[{"id":1,"method":"x"}] x`}, unread},
		{"not for ever", []string{`>{'id':1,"method":"tools/call"}`, "+60m"}, ""},
		{"not for the next server", []string{`<{'id':1,"method":"tools/call"}`, "gone"}, ""},
		{"cut off", []string{`<{"id":1,"method":"x",`, "<{"}, ""},
		{"in a batch", []string{`>[{"id":1,"method":"tools/call"},{"method":"x"},{"id":2,"method":"ping"}]`}, "2 requests of the client unanswered (tools/call, ping)"},
		{"answers in a batch", []string{call, ask(">", 2, "ping", "{}"), `<[{"id":2,"result":{}},{"id":1,"result":{}}]`}, ""},
		{"many methods", []string{ask(">", 1, "a", "{}"), ask(">", 2, "b", "{}"), ask(">", 3, "c", "{}"), ask(">", 4, "d", "{}")},
			"4 requests of the client unanswered (a, b, c, ...)"},

		{"server asked", []string{roots}, "1 request of the server unanswered (roots/list)"},

		{"listening", []string{ask(">", 1, "subscriptions/listen", modernMeta)}, "1 request of the client unanswered (subscriptions/listen)"},
		{"listened", []string{ask(">", 1, "subscriptions/listen", modernMeta), cancel("<", 1)}, ""},
		{"noise", []string{">hello", "<Server running on stdio", "<{}"}, ""},
	})
}

func TestMaySleepOnlyWithoutTasks(t *testing.T) {
	start := []string{ask(">", 1, "tools/call", `{"name":"x","task":{"ttl":60000}}`), reply("<", 1, `{"task":`+taskOf("working", "60000")+`}`)}
	forever := []string{start[0], reply("<", 1, `{"task":`+taskOf("working", "null")+`}`)}
	get := func(status, ttl string) []string {
		return []string{ask(">", 2, "tasks/get", `{"taskId":"t"}`), reply("<", 2, taskOf(status, ttl))}
	}
	failedGet := func(method string, code int) []string {
		return []string{ask(">", 2, method, `{"taskId":"t"}`), refuse("<", 2, code)}
	}
	after := slices.Concat[[]string]
	const running, unfetched = "1 task of the client running", "1 task of the client with a result that was not fetched"
	checkSleep(t, []string{initialize, welcome, initialized}, []sleepCase{
		{"started", start, running},
		{"not started", []string{start[0], reply("<", 1, `{"content":[]}`)}, ""},
		{"not asked for", []string{ask(">", 1, "tools/call", `{"name":"task"}`), start[1]}, ""},
		{"refused", []string{start[0], refuse("<", 1, -32601)}, ""},
		{"started late", []string{start[0], cancel(">", 1), start[1]}, running},
		{"runs past its ttl", after(start, []string{"+2m"}), running},
		{"working", after(start, get("working", "60000")), running},
		{"needs input", after(start, get("input_required", "60000")), running},
		{"completed", after(start, get("completed", "60000")), unfetched},
		{"completed, ttl not over", after(start, get("completed", "60000"), []string{"+59s"}), unfetched},
		{"completed, ttl over", after(start, get("completed", "60000"), []string{"+60s"}), ""},
		{"completed, ttl longer now", after(start, get("completed", "90000"), []string{"+60s"}), unfetched},
		{"completed, unlimited", after(forever, get("failed", "null"), []string{"+1000h"}), unfetched},
		{"fetched", after(forever, get("completed", "null"), []string{ask(">", 3, "tasks/result", `{"taskId":"t"}`), reply("<", 3, `{"content":[]}`)}), ""},
		{"being fetched", after(forever, []string{ask(">", 3, "tasks/result", `{"taskId":"t"}`)}), "1 request of the client unanswered (tasks/result)"},
		{"fetched at once, too large", after(forever, []string{ask(">", 3, "tasks/result", `{"taskId":"t"}`), "<~" + reply("", 3, "{}")}), ""},
		{"fetch given up", after(forever, []string{ask(">", 3, "tasks/result", `{"taskId":"t"}`), cancel(">", 3)}), running},
		{"another fetched", after(forever, []string{ask(">", 3, "tasks/result", `{"taskId":"u"}`), reply("<", 3, `{}`)}), running},
		{"failed as the request would", after(forever, failedGet("tasks/result", -32000)), ""},
		{"cancelled", after(forever, []string{ask(">", 2, "tasks/cancel", `{"taskId":"t"}`), reply("<", 2, taskOf("cancelled", "null"))}), ""},
		{"forgotten", after(forever, failedGet("tasks/get", -32602)), ""},
		{"not told", after(forever, failedGet("tasks/get", -32603)), running},
		{"ended before it was cancelled", after(forever, failedGet("tasks/cancel", -32602)), unfetched},
		{"told", after(start, []string{`<{"method":"notifications/tasks/status","params":` + taskOf("completed", "60000") + `}`, "+1m"}), ""},
		{"listed", after(start, []string{ask(">", 2, "tasks/list", `{}`), reply("<", 2, `{"tasks":[{"taskId":"u"},`+taskOf("failed", "1000")+`]}`), "+1s"}), ""},
		{"listed oddly", after(start, []string{ask(">", 2, "tasks/list", `{}`), reply("<", 2, `{"tasks":7}`)}), running},
		{"NaN beside it", []string{ask(">", 1, "tools/call", `{"name":"x","task":{},"n":NaN}`), start[1]}, running},
		{"without its id", []string{start[0], reply("<", 1, `{"task":{"status":"working"}}`)}, ""},
		{"server gone", after(forever, []string{"gone"}), ""},

		{"of the server", []string{ask("<", 1, "sampling/createMessage", `{"task":{}}`), reply(">", 1, `{"task":`+taskOf("working", "null")+`}`)}, "1 task of the server running"},
		{"of the server, told", []string{ask("<", 1, "sampling/createMessage", `{"task":{}}`), reply(">", 1, `{"task":`+taskOf("working", "0")+`}`),
			`>{"method":"notifications/tasks/status","params":` + taskOf("completed", "0") + `}`}, ""},

		{"extension", []string{ask(">", 1, "tools/call", modernTask), reply("<", 1, newTask)}, running},
		{"extension not known to the client", []string{ask(">", 1, "tools/call", modernMeta), reply("<", 1, newTask)}, ""},
		{"extension, large request", []string{">~" + ask("", 1, "tools/call", modernMeta), reply("<", 1, newTask)}, running},
		{"extension, completed", []string{ask(">", 1, "tools/call", modernTask), reply("<", 1, newTask), ask(">", 2, "tasks/get", `{"taskId":"t"}`),
			reply("<", 2, `{"taskId":"t","status":"completed","ttlMs":60000,"result":{}}`)}, ""},
		{"extension, told", []string{ask(">", 1, "tools/call", modernTask), reply("<", 1, newTask),
			`<{"method":"notifications/tasks","params":{"taskId":"t","status":"failed","ttlMs":null,"error":{}}}`}, ""},
		{"extension, cancelled", []string{ask(">", 1, "tools/call", modernTask), reply("<", 1, newTask), ask(">", 2, "tasks/cancel", `{"taskId":"t"}`), reply("<", 2, "{}")}, ""},
	})
}

func TestReplay(t *testing.T) {
	initialize, welcome := strings.Replace(initialize, `"id":0`, `"id":"i"`, 1), strings.Replace(welcome, `"id":0`, `"id":"i"`, 1)
	level := func(id any, level string) []string {
		return []string{ask(">", id, "logging/setLevel", `{"level":"`+level+`","_meta":{"progressToken":1}}`), reply("<", id, "{}")}
	}
	watch := func(id any, method, uri string) []string {
		return []string{ask(">", id, "resources/"+method, `{"uri":"`+uri+`"}`), reply("<", id, "{}")}
	}
	steps := func(lines ...string) []string { return append([]string{initialize[1:], initialized[1:]}, lines...) }
	setLevel := func(id, level string) string {
		return `{"jsonrpc":"2.0","id":"` + id + `","method":"logging/setLevel","params":{"level":"` + level + `"}}`
	}
	subscribe := func(id, uri string) string {
		return `{"jsonrpc":"2.0","id":"` + id + `","method":"resources/subscribe","params":{"uri":"` + uri + `"}}`
	}
	tests := []struct {
		name  string
		lines []string
		want  []string
		sleep string
	}{
		{"handshake only", nil, steps(), ""},
		{"calls are never repeated", []string{ask(">", 1, "tools/call", "{}"), reply("<", 1, "{}")}, steps(), ""},
		{"last level", slices.Concat(level(1, "info"), level(2, "debug")), steps(setLevel("mcp-tether:1", "debug")), ""},
		{"level refused", slices.Concat(level(1, "info"), []string{ask(">", 2, "logging/setLevel", `{"level":"loud"}`), refuse("<", 2, -32602)}),
			steps(setLevel("mcp-tether:1", "info")), ""},
		{"level in spite of its cancellation", []string{level(1, "info")[0], cancel(">", 1), level(1, "info")[1]}, steps(setLevel("mcp-tether:1", "info")), ""},
		{"subscriptions in order", slices.Concat(watch(1, "subscribe", "b"), level(2, "info"), watch(3, "subscribe", "a"), watch(4, "subscribe", "c"), watch(5, "unsubscribe", "c")),
			steps(setLevel("mcp-tether:1", "info"), subscribe("mcp-tether:2", "b"), subscribe("mcp-tether:3", "a")), ""},
		{"ids of the client avoided", level(`"mcp-tether:7"`, "info"), steps(setLevel("mcp-tether-1:1", "info")), ""},
		{"and again", slices.Concat(level(`"mcp-tether:7"`, "info"), level(`"mcp-tether-1:"`, "info")), steps(setLevel("mcp-tether-2:1", "info")), ""},
		{"level too large", []string{">~" + level(1, "info")[0][1:], level(1, "info")[1]}, nil, "log level cannot be restored"},
		{"level too large, then not", slices.Concat([]string{">~" + level(1, "info")[0][1:], level(1, "info")[1]}, level(2, "info")), steps(setLevel("mcp-tether:1", "info")), ""},
		{"subscription too large", []string{">~" + watch(1, "subscribe", "a")[0][1:], watch(1, "subscribe", "a")[1]}, nil, "subscription cannot be restored"},
		{"subscription without uri", []string{ask(">", 1, "resources/subscribe", "{}"), reply("<", 1, "{}")}, nil, "subscription cannot be restored"},
		{"subscription refused", []string{ask(">", 1, "resources/subscribe", "{}"), refuse("<", 1, -32602)}, steps(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Conversation{}
			now := talk(t, c, slices.Concat([]string{initialize, welcome, initialized}, tt.lines)...)
			if got := c.MaySleep(now); got != tt.sleep {
				t.Fatalf("may sleep: %q, want %q", got, tt.sleep)
			}
			if tt.sleep == "" {
				checkSteps(t, c.Replay(), tt.want)
			}
		})
	}
}

func checkSteps(t *testing.T, steps []Step, want []string) {
	t.Helper()
	if len(steps) != len(want) {
		t.Fatalf("%d steps, want %d", len(steps), len(want))
	}
	for i, s := range steps {
		if string(s.Line) != want[i]+"\n" {
			t.Errorf("step %d is %s, want %s", i, s.Line, want[i])
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ URI string }
		}
		if err := json.Unmarshal(s.Line, &m); err != nil {
			t.Error(err)
		}
		if string(m.ID) != s.AwaitID || (s.AwaitID == "") != (s.Check == nil) {
			t.Errorf("step %d waits for %q, its id is %s", i, s.AwaitID, m.ID)
		}
		tell, told := "", []byte(nil)
		if s.Check != nil {
			told, _ = s.Check(Message{Kind: Response, ID: s.AwaitID, Raw: []byte(`{"result":{}}`)})
		}
		if m.Method == MethodSubscribe {
			tell = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + m.Params.URI + `"}}` + "\n"
		}
		if string(told) != tell {
			t.Errorf("step %d tells %q, want %q", i, told, tell)
		}
	}
}

func TestReplayUsesNewIDs(t *testing.T) {
	c := &Conversation{}
	talk(t, c, initialize, welcome, initialized, ask(">", 1, "logging/setLevel", `{"level":"info"}`), reply("<", 1, "{}"))
	first, second := c.Replay()[2].AwaitID, c.Replay()[2].AwaitID
	if first == second {
		t.Errorf("%s twice", first)
	}
}

func TestCheckComparesHandshakes(t *testing.T) {
	const tools = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"
	tests := []struct{ name, answer, want, tell string }{
		{"same", welcome[1:], "", ""},
		{"other order", `{"id":0,"result":{"serverInfo":{"version":"1","name":"s"},"capabilities":{"logging":{},"tools":{"listChanged":true}},"protocolVersion":"2025-11-25"}}`, "", ""},
		{"other program", strings.Replace(welcome[1:], `"version":"1"`, `"version":"2"`, 1), "", tools},
		{"version", `{"id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`, `protocolVersion was "2025-11-25" and is "2025-06-18"`, ""},
		{"capability lost", `{"id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}}`, `capabilities.logging is missing`, ""},
		{"capability new", strings.Replace(welcome[1:], `"logging":{}`, `"logging":{"x":1},"prompts":{"listChanged":true}`, 1), "", tools},
		{"inside", `{"id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":null},"logging":{}}}}`, `capabilities.tools.listChanged was true and is not`, ""},
		{"experimental new", strings.Replace(welcome[1:], `"logging":{}`, `"logging":{},"experimental":{"x":{}}`, 1), "", ""},
		{"no capabilities", `{"id":0,"result":{"protocolVersion":"2025-11-25"}}`, `capabilities.logging is missing`, ""},
		{"error", `{"id":0,"error":{"code":-32603,"message":"no database"}}`, `no database`, ""},
		{"error without message", `{"id":0,"error":{}}`, `no message`, ""},
		{"odd", `{"id":0,"result":7}`, `no object`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Conversation{}
			talk(t, c, initialize, welcome, initialized)
			tell, got := check(t, c.Replay()[0], tt.answer)
			if (got == nil) != (tt.want == "") || got != nil && !strings.Contains(got.Error(), tt.want) || tell != tt.tell {
				t.Errorf("%v, want %q, tells %q", got, tt.want, tell)
			}
			if final := strings.Contains(tt.want, "capabilities.") || strings.Contains(tt.want, " was "); errors.Is(got, ErrChanged) != final {
				t.Errorf("%v: final %t", got, !final)
			}
			if again, _ := check(t, c.Replay()[0], tt.answer); got == nil && again != "" {
				t.Errorf("the same server again tells %q", again)
			}
		})
	}
}

func check(t *testing.T, s Step, answer string) (tell string, err error) {
	t.Helper()
	err = errors.New("no message")
	if feed := (&Scanner{}).Feed([]byte(answer+"\n"), func(m Message) {
		var told []byte
		told, err = s.Check(m)
		tell = string(told)
	}); feed != nil {
		t.Fatal(feed)
	}
	return tell, err
}

// If a new server refuses something and is used, the next one is not asked for it. A server that is only tried drops
// nothing. Only a refused handshake is fatal.
func TestRefusedStateIsDropped(t *testing.T) {
	c := &Conversation{}
	talk(t, c, initialize, welcome, initialized, ask(">", 1, "logging/setLevel", `{"level":"info"}`), reply("<", 1, "{}"),
		ask(">", 2, "resources/subscribe", `{"uri":"a"}`), reply("<", 2, "{}"), "gone")
	for _, next := range []struct {
		lines []string
		steps int
	}{
		{[]string{"gone", "used"}, 4}, {[]string{"used", "gone"}, 2},
	} {
		steps := c.Replay()
		for i, want := range []string{"", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a"}}` + "\n"} {
			tell, err := check(t, steps[2+i], `{"id":"x","error":{"message":"bad"}}`)
			if err != nil || tell != want {
				t.Errorf("%q, %v", tell, err)
			}
		}
		talk(t, c, next.lines...)
		if again := c.Replay(); len(again) != next.steps {
			t.Fatalf("%v: %d steps", next.lines, len(again))
		}
	}
}

// Pages are compared one by one, each asked for with the cursor that the new server has given.
func TestReplayReadsPages(t *testing.T) {
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"
	c := &Conversation{}
	talk(t, c, initialize, welcome, initialized,
		ask(">", 1, "tools/list", "{}"), reply("<", 1, `{"tools":[1],"nextCursor":"a"}`),
		ask(">", 2, "tools/list", `{"cursor":"a"}`), reply("<", 2, `{"tools":[2],"nextCursor":"b"}`))
	for _, tt := range []struct {
		name    string
		answers []string
		told    bool
	}{
		{"as before", []string{`{"tools":[1],"nextCursor":"x"}`, `{"nextCursor":"y","tools":[2]}`}, false},
		{"as before again", []string{`{"tools":[1],"nextCursor":"z","_meta":{"took":7}}`, `{"tools":[2],"nextCursor":"z"}`}, false},
		{"second page differs", []string{`{"tools":[1],"nextCursor":"x"}`, `{"tools":[3],"nextCursor":"y"}`}, true},
		{"told again", []string{`{"tools":[1],"nextCursor":"x"}`, `{"tools":[3],"nextCursor":"y"}`}, true},
		{"no page behind it", []string{`{"tools":[1],"nextCursor":"x"}`, `{"tools":[3]}`}, true},
		{"first page differs", []string{`{"tools":[0],"nextCursor":"x"}`}, true},
		{"refused", []string{""}, true},
		{"as the client knows it", []string{`{"tools":[1],"nextCursor":"x"}`, `{"tools":[2],"nextCursor":"y"}`}, false},
	} {
		steps := c.Replay()[2:]
		told, cursor := "", ""
		for _, answer := range tt.answers {
			if len(steps) != 1 || !strings.Contains(string(steps[0].Line), cursor) || strings.Contains(string(steps[0].Line), "cursor") != (cursor != "") {
				t.Fatalf("%s: %d steps, %s, want the cursor %q", tt.name, len(steps), steps[0].Line, cursor)
			}
			line := refuse("", `"x"`, -1)
			if answer != "" {
				line = reply("", `"x"`, answer)
			}
			tell, err := check(t, steps[0], line)
			if err != nil {
				t.Fatal(err)
			}
			told += tell
			cursor = fmt.Sprintf(`"cursor":%q`, textAt([]byte(answer), "nextCursor"))
			steps = steps[0].More()
		}
		if len(steps) > 0 || told != strings.Repeat(changed, btoi(tt.told)) {
			t.Errorf("%s: told %q, %d steps left", tt.name, told, len(steps))
		}
	}
}

// A client that was told of another list may not get to read it, because the server ends before it answers. Each later
// server's handshake tells it again until it has.
func TestChangedListIsToldUntilItIsRead(t *testing.T) {
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"
	other := strings.Replace(welcome[1:], `"version":"1"`, `"version":"2"`, 1)
	list, answer := ask(">", 1, "tools/list", "{}"), reply("<", 1, `{"tools":[1],"nextCursor":"a"}`)
	next, failed := ask(">", 2, "tools/list", `{"cursor":"a"}`), refuse("<", 2, -32603)
	for name, tt := range map[string]struct {
		lines []string // after which the second server answers the handshake, and the third with the same
		told  [2]string
	}{
		"not read":          {nil, [2]string{changed, changed}},
		"not answered":      {[]string{list, refuse("<", 1, -32603)}, [2]string{changed, changed}},
		"not to the end":    {[]string{list, answer, next, failed}, [2]string{changed, changed}},
		"read":              {[]string{list, answer}, [2]string{changed, ""}},
		"read, but too big": {[]string{list, "<~" + answer[1:]}, [2]string{changed, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Conversation{}
			talk(t, c, initialize, welcome, initialized, list, "<~"+answer[1:], "gone")
			for i, want := range tt.told {
				if tell, err := check(t, c.Replay()[0], other); tell != want || err != nil {
					t.Errorf("server %d: told %q, %v", i+2, tell, err)
				}
				talk(t, c, append(slices.Clone(tt.lines), "gone")...)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// What is experimental is in no version of the protocol: that it is missing keeps no server from its place.
func TestExperimentsMayGo(t *testing.T) {
	c := &Conversation{}
	talk(t, c, initialize, strings.Replace(welcome, `"logging":{}`, `"logging":{},"experimental":{"x":{"built":"today"}}`, 1), initialized)
	if tell, err := check(t, c.Replay()[0], welcome[1:]); tell != "" || err != nil {
		t.Errorf("tells %q, %v", tell, err)
	}
}

func TestPendingListsInOrder(t *testing.T) {
	c := &Conversation{}
	talk(t, c, ask(">", 3, "a", "{}"), ask(">", `"x"`, "b", "{}"), ask(">", 1, "c", "{}"), ask(">", 3, "d", "{}"), reply("<", 3, "{}"), ask("<", 9, "e", "{}"))
	if got := strings.Join(c.Pending(false), " "); got != `"x" 1 3` {
		t.Error(got)
	}
	for _, id := range c.Pending(false) {
		c.FromServer(Message{ID: id, Kind: Response, IsError: true}, began())
	}
	if got := c.Pending(false); len(got) != 0 {
		t.Error(got)
	}
}

func TestErrorReply(t *testing.T) {
	got := ErrorReply(`"a"`, "cannot start \"x\":\nno <such> file\xff")
	var m struct {
		JSONRPC string
		ID      string
		Error   struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(got, &m); err != nil {
		t.Fatal(err)
	}
	if m.JSONRPC != "2.0" || m.ID != "a" || m.Error.Code != -32603 || m.Error.Message != "cannot start \"x\":\nno <such> file\ufffd" {
		t.Errorf("%+v", m)
	}
	if bytes.Count(got, []byte("\n")) != 1 || !bytes.HasSuffix(got, []byte("}\n")) {
		t.Errorf("%q is not one line", got)
	}
}

// A server that ends before its handshake is confirmed can be replaced: the client confirms the next one.
func TestReplayOfAnUnconfirmedHandshake(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		c := &Conversation{}
		lines := []string{initialize, welcome}
		if confirmed {
			lines = append(lines, initialized)
		}
		talk(t, c, lines...)
		c.ServerGone()
		steps := c.Replay()
		if why := c.Unrestorable(); why != "" || len(steps) == 0 || steps[0].AwaitID != "0" {
			t.Fatalf("confirmed %t: %q, %+v", confirmed, why, steps)
		}
		if again := len(steps) > 1; again != confirmed {
			t.Errorf("confirmed %t: %d steps", confirmed, len(steps))
		}
	}
}
