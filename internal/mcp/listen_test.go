package mcp

import (
	"slices"
	"testing"
)

const (
	listen = `>{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:1"]}}}`
	agreed = `<{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}}}`
)

// A subscription that was acknowledged does not keep a server awake: a new one is sent it again. Its client is told to look
// again at what the server had agreed to report.
func TestSubscriptionsAreRestored(t *testing.T) {
	const (
		meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}`
		news = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + meta + "}}\n" +
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{` + meta + `,"uri":"a:1"}}` + "\n"
		waits = "1 request of the client unanswered (subscriptions/listen)"
	)
	begun := []string{ask(">", 1, "tools/list", modernMeta), reply("<", 1, "{}")}
	for name, tt := range map[string]struct {
		lines []string
		steps int
		sleep string
	}{
		"asked":                 {[]string{listen}, 0, waits},
		"acknowledged":          {[]string{listen, agreed}, 1, ""},
		"acknowledged twice":    {[]string{listen, agreed, "gone", agreed}, 1, ""},
		"acknowledgement large": {[]string{listen, "<~" + agreed[1:]}, 0, waits},
		"too large":             {[]string{">~" + listen[1:], agreed}, 0, waits},
		"of another":            {[]string{ask(">", 1, "subscriptions/listen", modernMeta), agreed}, 0, waits},
		"of no subscription":    {[]string{ask(">", `"l"`, "tools/call", modernMeta), agreed}, 0, "1 request of the client unanswered (tools/call)"},
		"cancelled":             {[]string{listen, agreed, cancel(">", `"l"`)}, 0, ""},
		"ended":                 {[]string{listen, agreed, reply("<", `"l"`, "{}")}, 0, ""},
		"ended by the server":   {[]string{listen, agreed, cancel("<", `"l"`)}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Conversation{}
			now := talk(t, c, slices.Concat(begun, tt.lines)...)
			if got := c.MaySleep(now); got != tt.sleep {
				t.Errorf("%q", got)
			}
			steps := c.Replay()
			if len(steps) != tt.steps {
				t.Fatalf("%d steps", len(steps))
			}
			if len(steps) == 0 {
				return
			}
			tell, err := steps[0].Check(Message{})
			if string(steps[0].Line) != listen[1:]+"\n" || steps[0].AwaitID != `"l"` || string(tell) != news || err != nil {
				t.Errorf("%+v tells %s", steps[0], tell)
			}
			if calls, all := c.Pending(true), c.Pending(false); len(calls) != 0 || len(all) != 1 {
				t.Errorf("pending are %v of %v", calls, all)
			}
		})
	}
}

// A new server answers with the acknowledgement of that subscription, or it ends it.
func TestCompletes(t *testing.T) {
	for text, want := range map[string][2]bool{
		agreed[1:]:                {true, false},
		reply("", `"l"`, "{}"):    {true, true},
		refuse("", `"l"`, -32601): {true, true},
		reply("", `"m"`, "{}"):    {false, false},
		`{"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`: {false, false},
	} {
		_ = (&Scanner{}).Feed([]byte(text+"\n"), func(m Message) {
			if completes, ends := (Step{AwaitID: `"l"`, Listen: true}).Completes(m); completes != want[0] || ends != want[1] {
				t.Errorf("%s: %t, %t", text, completes, ends)
			}
			if completes, ends := (Step{}).Completes(m); completes || ends {
				t.Errorf("%s completes nothing", text)
			}
		})
	}
}
