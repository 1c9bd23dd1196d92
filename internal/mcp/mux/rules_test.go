package mux

import (
	"fmt"
	"strings"
	"testing"
)

const (
	sampling = `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[]}}`
	toolCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	// modernList needs no handshake.
	modernList = `{"id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
)

func (f *fixture) lines(got string, want ...string) {
	f.t.Helper()
	f.want(got, strings.Join(want, "\n"))
}

// refused checks that the server's request was refused.
func (f *fixture) refused(got, why string) {
	f.t.Helper()
	if !strings.HasPrefix(got, `s {"jsonrpc":"2.0","id":1,"error":{"code":-32603,`) || !strings.Contains(got, why) {
		f.t.Errorf("got %s, want a refusal: %s", got, why)
	}
}

// Clients that share a server begin alike. One that goes on otherwise gets an error, and the others go on.
func TestMixedHandshakes(t *testing.T) {
	const other = "this server has begun with another protocol version, or with other capabilities of its client"
	for _, c := range []struct{ name, line, why string }{
		{"version", strings.Replace(initialize, "2025-11-25", "2025-06-18", 1), other},
		{"capabilities", strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"sampling":{}}`, 1), other},
		{"no handshake", modernList, "this server has begun with a handshake, and this request needs none"},
	} {
		f := met(t, 1)
		f.Attach(2)
		if got := f.from(2, c.line); !strings.HasPrefix(got, "b {") || !strings.Contains(got, c.why) {
			t.Errorf("%s: %s", c.name, got)
		}
		f.want(said(f.Detach(2)), "")
		f.want(f.from(1, toolCall), "s "+strings.Replace(toolCall, `"id":1`, `"id":2`, 1))
	}
	f := newFixture(t)
	f.Attach(1)
	f.Attach(2)
	f.from(1, modernList)
	f.server(`{"id":1,"result":{}}`)
	if got := f.from(2, initialize); !strings.Contains(got, "this server serves clients without a handshake") {
		t.Error(got)
	}
	// A client that probes may fall back.
	f = met(t, 1)
	f.Attach(2)
	f.want(f.from(2, strings.Replace(modernList, "tools/list", "server/discover", 1)), "s "+strings.Replace(strings.Replace(modernList, "tools/list", "server/discover", 1), `"id":1`, `"id":2`, 1))
	f.server(`{"id":2,"error":{"code":-32601,"message":"no"}}`)
	if got := f.from(2, initialize); !strings.HasPrefix(got, "b {") {
		t.Error(got)
	}
	// So may one if the server knows of what it probes for, as long as a handshake counts.
	f = met(t, 1, 2)
	f.from(2, strings.Replace(modernList, "tools/list", "server/discover", 1))
	f.want(f.server(`{"id":3,"result":{}}`), `b {"id":1,"result":{}}`)
	f.Attach(3)
	if got := f.from(3, initialize); !strings.HasPrefix(got, "c {") {
		t.Error(got)
	}
	// Or of subscriptions.
	f = met(t, 1, 2)
	const agreed = `{"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%d}}}`
	f.from(2, `{"id":1,"method":"subscriptions/listen"}`)
	f.want(f.server(fmt.Sprintf(agreed, 3)), "b "+fmt.Sprintf(agreed, 1))
	f.Attach(3)
	if got := f.from(3, initialize); !strings.HasPrefix(got, "c {") {
		t.Error(got)
	}
	// The call of one that has left is answered, too.
	f = newFixture(t)
	f.Attach(1)
	f.from(1, modernList)
	f.Detach(1)
	f.Attach(2)
	f.from(2, initialize)
	f.server(`{"id":1,"result":{}}`)
	f.server(strings.Replace(initializeResult, `"id":1`, `"id":2`, 1))
	f.Attach(3)
	if got := f.from(3, initialize); !strings.HasPrefix(got, "c {") {
		t.Error(got)
	}
}

// Some programs repeat a number as a string, which the SDKs accept.
func TestNumbersThatComeBackAsStrings(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	f := newFixture(t)
	f.Attach(1)
	f.from(1, initialize)
	if got := f.server(strings.Replace(initializeResult, `"id":1`, `"id":"1"`, 1)); !strings.HasPrefix(got, "a {") {
		t.Error("the answer to initialize:", got)
	}
	f.from(1, toolCall)
	f.want(f.server(`{"id":"\u0032","result":{}}`), `a {"id":1,"result":{}}`)
	f.from(1, `{"id":"2","method":"x"}`)
	for _, id := range []string{`"2"`, `"4"`, `"x"`, `""`, `"3.5"`} {
		f.want(f.server(`{"id":`+id+`,"result":{}}`), "")
	}
	f.want(f.server(`{"id":"3","result":{}}`), `a {"id":"2","result":{}}`)
	f.server(sampling)
	f.want(f.from(1, `{"id":"1","result":{}}`), `s {"id":1,"result":{}}`)

	f = newFixture(t)
	f.Attach(1)
	told := `{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`
	f.from(1, `{"id":7,"method":"subscriptions/listen","params":{`+meta+`}}`)
	f.want(f.server(fmt.Sprintf(told, `"1"`)), "a "+fmt.Sprintf(told, "7"))
	f.want(f.server(`{"method":"notifications/cancelled","params":{"requestId":"1"}}`), `a {"method":"notifications/cancelled","params":{"requestId":7}}`)
	if f.unanswered() != 0 {
		t.Error(f.unanswered(), "requests are open")
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	f := met(t, 1)
	f.want(f.from(1, `{'id':1,"method":"x"}`), `a {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"this line cannot be read"}}`)
	f.want(f.from(1, `{"id":null,"method":"x"}`), `a {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the id must not be null"}}`)
	for _, line := range []string{"hello", "", "{", `{"id":1}`, "7", "null", `{"id":4,"result":{}}`, `{"id":null,"error":{"code":-32700,"message":"x"}}`} {
		f.want(f.from(1, line), "")
		f.want(f.server(line), "")
	}
	f.want(f.from(1, `{"id":1,"method":"x","params":{"a":NaN}}`), `s {"id":2,"method":"x","params":{"a":NaN}}`)
	f.want(f.server(`{"id":2,"result":{"a":NaN}}`), `a {"id":1,"result":{"a":NaN}}`)
}

func TestRequestsOfTheServerAreMapped(t *testing.T) {
	f := met(t, 1)
	withToken := `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"_meta":{"progressToken":"q"}}}`
	f.want(f.server(withToken), `a {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"progressToken":1}}}`)
	f.want(f.from(1, `{"method":"notifications/progress","params":{"progressToken":1}}`), `s {"method":"notifications/progress","params":{"progressToken":"q"}}`)
	f.want(f.server(`{"method":"notifications/cancelled","params":{"requestId":"q"}}`), `a {"method":"notifications/cancelled","params":{"requestId":1}}`)
	f.want(f.from(1, `{"id":1,"result":{}}`), "")
	f.server(withToken)
	f.want(said(f.Detach(1)), `s {"jsonrpc":"2.0","id":"q","error":{"code":-32603,"message":"the client has left"}}`)
}

// A careless server might take a request for a notification, or the other way.
func TestKindsAreNotMistaken(t *testing.T) {
	f := met(t, 1, 2)
	f.want(f.from(1, `{"id":1,"method":"notifications/cancelled","params":{"requestId":3}}`),
		`a {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"a notification must not have an id"}}`)
	for _, method := range []string{"initialize", "logging/setLevel", "resources/unsubscribe", "tasks/cancel", "notifications/tasks/status"} {
		f.want(f.from(1, `{"method":"`+method+`","params":{"uri":"x","taskId":"t","level":"debug"}}`), "")
	}
}

func TestNotificationsOfTheServer(t *testing.T) {
	f := met(t, 1, 2)
	f.Attach(3) // Has not begun.
	for _, method := range []string{"notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/unknown"} {
		line := `{"jsonrpc":"2.0","method":"` + method + `"}`
		f.lines(f.server(line), "a "+line, "b "+line)
	}
	f.want(f.from(1, `{"method":"notifications/unknown","params":{}}`), `s {"method":"notifications/unknown","params":{}}`)
}

func level(name string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"` + name + `"}}`
}

func logged(name string) string {
	return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + name + `","data":"x"}}`
}

func ownLevel(n int, name string) string {
	return fmt.Sprintf(`s {"jsonrpc":"2.0","id":%d,"method":"logging/setLevel","params":{"level":%q}}`, n, name)
}

func TestLogLevels(t *testing.T) {
	f := met(t, 1, 2, 3)
	f.from(1, `{"method":"notifications/unknown"}`)
	f.from(2, `{"method":"notifications/unknown"}`)
	f.lines(f.server(logged("debug")), "a "+logged("debug"), "b "+logged("debug"), "c "+logged("debug"))
	// The others have asked for nothing and go on with what is usual.
	f.want(f.from(1, level("error")), ownLevel(4, "info"))
	f.server(`{"id":4,"result":{}}`)
	f.lines(f.server(logged("info")), "b "+logged("info"), "c "+logged("info"))
	f.want(f.from(2, level("debug")), ownLevel(5, "debug"))
	f.server(`{"id":5,"result":{}}`)
	f.want(f.server(logged("debug")), "b "+logged("debug"))
	f.lines(f.server(logged("error")), "a "+logged("error"), "b "+logged("error"), "c "+logged("error"))
	f.lines(f.server(logged("odd")), "a "+logged("odd"), "b "+logged("odd"), "c "+logged("odd"))
	// The server still has to send what another one wants.
	f.want(f.from(3, level("emergency")), ownLevel(6, "debug"))
	f.want(f.server(`{"id":6,"result":{}}`), `c {"id":1,"result":{}}`)
	f.want(f.server(logged("alert")), "a "+logged("alert")+"\nb "+logged("alert"))
	f.want(said(f.Detach(2)), "")
	f.want(f.from(3, level("debug")), ownLevel(7, "debug"))
	f.want(f.server(`{"id":7,"error":{}}`), `c {"id":1,"error":{}}`)
	f.want(f.from(3, level("odd")), ownLevel(8, "odd"))
	f.want(f.server(logged("critical")), "a "+logged("critical")+"\nc "+logged("critical"))
}

func subscribe(method, uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":%q}}`, method, uri)
}

func news(uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri)
}

func TestTasksAreTheirClients(t *testing.T) {
	f := met(t, 1, 2)
	begin := `{"id":1,"method":"tools/call","params":{"name":"x","task":{"ttl":1},"_meta":{"progressToken":"p"}}}`
	f.from(1, begin)
	begun := `{"id":%s,"result":{"task":{"taskId":"t","status":"working"}}}`
	f.want(f.server(fmt.Sprintf(begun, "3")), "a "+fmt.Sprintf(begun, "1"))
	get := `{"id":1,"method":"tasks/%s","params":{"taskId":"t"}}`
	for _, method := range []string{"get", "result", "cancel", "update"} {
		f.want(f.from(2, fmt.Sprintf(get, method)), `b {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"task not found"}}`)
	}
	f.want(f.from(1, fmt.Sprintf(get, "get")), `s {"id":4,"method":"tasks/get","params":{"taskId":"t"}}`)
	f.server(`{"id":4,"result":{"taskId":"t","status":"working"}}`)
	list := `{"id":1,"method":"tasks/list"}`
	f.from(1, list)
	f.from(2, list)
	listed := `{"id":%s,"result":{"tasks":[%s{"taskId":"t","status":"working"}],"nextCursor":"c"}}`
	f.want(f.server(fmt.Sprintf(listed, "5", `{"taskId":"u"}, `)), "a "+fmt.Sprintf(listed, "1", ""))
	f.want(f.server(fmt.Sprintf(listed, "6", "")), `b {"id":1,"result":{"tasks":[],"nextCursor":"c"}}`)
	// The task reports its progress and asks its client.
	for _, token := range []string{"3", `"3"`} {
		for _, meta := range []string{"", `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}`} {
			f.want(f.server(`{"method":"notifications/progress","params":{"progressToken":`+token+meta+`}}`),
				`a {"method":"notifications/progress","params":{"progressToken":"p"`+meta+`}}`)
		}
	}
	asks := `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}`
	f.from(2, toolCall)
	f.want(f.server(asks), "a "+asks)
	status := `{"method":"notifications/tasks/status","params":{"taskId":"t","status":"completed"}}`
	f.want(f.server(status), "a "+status)
	f.want(f.server(strings.Replace(status, `"t"`, `"u"`, 1)), "")
	// A task whose client leaves is cancelled, and no other client sees it.
	f.server(`{"id":7,"result":{}}`)
	f.from(1, begin)
	f.server(`{"id":8,"result":{"task":{"taskId":"v","status":"working"}}}`)
	f.from(1, `{"id":1,"result":{}}`)
	f.want(said(f.Detach(1)), `s {"jsonrpc":"2.0","id":9,"method":"tasks/cancel","params":{"taskId":"v"}}`)
	f.refused(f.server(strings.Replace(asks, `"t"`, `"v"`, 1)), "of none of them")
}

// A client's batch is refused as a whole, an empty one as well, so a server has no reason for one.
func TestBatches(t *testing.T) {
	f := met(t, 1, 2)
	for _, batch := range []string{`[{"id":1,"method":"x"},{"method":"notifications/y"}]`, `[]`, ` [`} {
		f.want(f.from(1, batch), `a {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not taken here: send each message in a line of its own"}}`)
	}
	f.want(f.server(`[{"id":4,"method":"ping"}]`), "")
	f.want(f.server(`[INFO] listening`), "")
}

func TestWithoutHandshake(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"warning"}`
	f := newFixture(t)
	f.Attach(1)
	f.Attach(2)
	listen := `{"id":%s,"method":"subscriptions/listen","params":{"notifications":{},` + meta + `}}`
	f.want(f.from(1, fmt.Sprintf(listen, `"l"`)), "s "+fmt.Sprintf(listen, "1"))
	f.want(f.from(2, fmt.Sprintf(listen, "1")), "s "+fmt.Sprintf(listen, "2"))
	told := `{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`
	f.want(f.server(fmt.Sprintf(told, "1")), "a "+fmt.Sprintf(told, `"l"`))
	f.want(f.server(fmt.Sprintf(told, "2")), "b "+fmt.Sprintf(told, "1"))
	f.want(f.server(fmt.Sprintf(told, "3")), "")
	ended := `{"id":%s,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"resultType":"complete"}}`
	f.want(f.server(fmt.Sprintf(ended, "1", "1")), "a "+fmt.Sprintf(ended, `"l"`, `"l"`))
	f.want(f.server(`{"method":"notifications/cancelled","params":{"requestId":2}}`), `b {"method":"notifications/cancelled","params":{"requestId":1}}`)
	if f.unanswered() != 0 {
		t.Error(f.unanswered(), "requests are open")
	}
	// Log messages are for those whose request asks for them.
	f.from(2, `{"id":5,"method":"tools/call","params":{`+meta+`}}`)
	f.want(f.server(logged("error")), "b "+logged("error"))
	f.want(f.server(logged("info")), "")
	// A subscription that the client gives up leaves nothing behind.
	f.from(1, fmt.Sprintf(listen, "7"))
	f.want(f.from(1, `{"method":"notifications/cancelled","params":{"requestId":7}}`), `s {"method":"notifications/cancelled","params":{"requestId":4}}`)
	f.want(f.server(fmt.Sprintf(told, "4")), "")
}

func TestLimits(t *testing.T) {
	f := met(t, 1, 2)
	for n := range maxOpen {
		f.from(1, fmt.Sprintf(`{"id":%d,"method":"x"}`, n))
	}
	f.want(f.from(1, `{"id":-1,"method":"x"}`), `a {"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"10000 requests are open already"}}`)
	f.want(f.from(2, `{"id":3,"method":"x"}`), `s {"id":10003,"method":"x"}`)
	large := `{"id":1,"method":"x","params":"` + strings.Repeat("x", maxHeld/2) + `"}`
	for n := 3; n <= 10_003; n++ {
		f.server(fmt.Sprintf(`{"id":%d,"result":{}}`, n))
	}
	f.handshake.phase = phaseAsked // Requests wait.
	f.want(f.from(1, large), "")
	f.want(f.from(1, strings.Replace(large, `"id":1`, `"id":2`, 1)), `a {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too much waits for the server"}}`)
	f.want(f.from(2, large), "")
	f.handshake.phase = phaseDone
	f.begin()
	f.sendHeld()
	f.server(`{"id":10004,"result":{}}`)
	f.server(`{"id":10005,"result":{}}`)
	// Calls that were cancelled and are never answered are not kept.
	for range 10 {
		f.from(1, toolCall)
		f.from(1, `{"method":"notifications/cancelled","params":{"requestId":1}}`)
	}
	if n := len(f.Mux.calls); n > 0 {
		t.Errorf("%d calls are kept", n)
	}
}

// A task of the extension tells of its end by way of a subscription, and its client need not ask for it (SEP-2663).
func TestTaskThatEndsInASubscription(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	f := &fixture{New(), t}
	f.Attach(1)
	f.from(1, `{"id":"l","method":"subscriptions/listen","params":{"notifications":{},`+meta+`}}`)
	for n, task := range []string{"t", "u"} {
		got := f.from(1, `{"id":1,"method":"tools/call","params":{"name":"x",`+meta+`}}`)
		if !strings.HasPrefix(got, "s ") {
			t.Fatal(got)
		}
		f.server(fmt.Sprintf(`{"id":%d,"result":{"resultType":"task","taskId":%q,"status":"working"}}`, n+2, task))
		told := `{"method":"notifications/tasks","params":{"taskId":"` + task + `","status":"completed","_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`
		f.want(f.server(fmt.Sprintf(told, "1")), "a "+fmt.Sprintf(told, `"l"`))
	}
	// Nothing is left to cancel but the subscription.
	f.want(said(f.Detach(1)), `s {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"the client has left"}}`)
}

// The one that leaves has no handshake, and the server does not take requests during another one's.
func TestSubscriberLeavesDuringAHandshake(t *testing.T) {
	const refusal = `{"id":2,"error":{"code":-32602,"message":"no"}}`
	for _, answer := range []string{strings.Replace(initializeResult, `"id":1`, `"id":2`, 1), refusal} {
		f := newFixture(t)
		f.Attach(1)
		f.from(1, subscribe("subscribe", "file:///a"))
		f.server(`{"id":1,"result":{}}`)
		f.Attach(2)
		f.from(2, initialize)
		f.want(said(f.Detach(1)), "")
		if got, want := f.server(answer), "\n"+`s {"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"file:///a"}}`; !strings.HasSuffix(got, want) {
			t.Errorf("got %s", got)
		}
	}
}

// Of two that subscribe to a resource one leaves, and the other one is refused: nobody has what the server has accepted.
func TestSubscriptionThatNobodyHas(t *testing.T) {
	const accepted, refused = `{"id":4,"result":{}}`, `{"id":3,"error":{"code":-32602,"message":"no"}}`
	for _, order := range [][2]string{{refused, accepted}, {accepted, refused}} {
		f := met(t, 1, 2)
		f.from(1, subscribe("subscribe", "file:///a"))
		f.from(2, subscribe("subscribe", "file:///a"))
		f.want(said(f.Detach(2)), "")
		f.server(order[0])
		if got, want := f.server(order[1]), `s {"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"file:///a"}}`; !strings.HasSuffix(got, want) {
			t.Errorf("%q: %s", order, got)
		}
	}
}
