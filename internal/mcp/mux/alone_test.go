package mux

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// loner drives a mux whose client is alone.
func loner(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.Alone = true
	f.Attach(1)
	return f
}

const listed = `{"jsonrpc":"2.0","id":5,"result":{"tools":[{"name":"a"}]}}`

// initialized has a server that has met its client.
func (f *fixture) initialized() {
	f.from(1, initialize+"\n")
	f.server(strings.Replace(initializeResult, `"id":1`, `"id":0`, 1) + "\n")
	f.from(1, ready+"\n")
}

// next has another server take the place of the last one, which answers as that did, and returns what was said.
func (f *fixture) next() string {
	f.t.Helper()
	f.ServerLeaves()
	f.ServerGone("")
	f.want(said(f.ServerStarted()), "s "+initialize)
	return f.server(strings.Replace(initializeResult, `"id":1`, `"id":0`, 1) + "\n")
}

// Lines pass as they are, both ways, also such as cannot be read, and the last one without its newline.
func TestAloneLinesPass(t *testing.T) {
	f := loner(t)
	for _, line := range []string{
		"", " \r", "no JSON", "\xff\xfe", `{"id":1.0,"method":"x","params":{"_meta":{"progressToken":7}}}`, `[{"id":2,"method":"x"}]`,
		`{"id":null,"method":"x"}`, `{"id":9,"result":{}}`, `{"id":8,"error":{}}`, ` {"method":"x"} `, `{'id':1}`, `{"id":4,"method":"ping"}`,
		`{"method":"notifications/cancelled","params":{"requestId":77}}`, `{"id":"s","method":"roots/list"}`, `{"id":5,"method":"logging/setLevel"}`,
	} {
		for _, end := range []string{"\n", "\r\n", ""} {
			if outs := f.FromClient(1, []byte(line+end)); len(outs) != 1 || outs[0].To != Server || string(outs[0].Line) != line+end {
				t.Errorf("the server gets %q of %q", said(outs), line+end)
			}
		}
	}
	f = loner(t)
	for _, line := range []string{"up", `{"id":1,"result":{}}`, `{"id":"q","method":"ping"}`, `[{"id":2,"result":1}]`, `{"method":"notifications/progress"}`} {
		if outs := f.FromServer([]byte(line + "\n")); len(outs) != 1 || outs[0].To != 1 || string(outs[0].Line) != line+"\n" {
			t.Errorf("the client gets %q of %q", said(outs), line)
		}
	}
}

// A list of one page is compared, and the client told where it differs; of several pages it is told always, and of an error never.
// Seen to fail where an error counts as another list.
func TestAloneLists(t *testing.T) {
	const (
		changed = "a " + `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		asked   = `s {"jsonrpc":"2.0","id":2147483646,"method":"tools/list","params":{}}`
	)
	for name, c := range map[string]struct{ first, second, told string }{
		"the same": {listed, listed, ""},
		"another":  {listed, strings.Replace(listed, `"a"`, `"b"`, 1), changed},
		"an error": {listed, `{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"not now"}}`, changed},
		"pages":    {strings.Replace(listed, `]}`, `],"nextCursor":"c"}`, 1), "", changed},
		"failed":   {`{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"not now"}}`, "", changed},
	} {
		t.Run(name, func(t *testing.T) {
			f := loner(t)
			f.initialized()
			f.from(1, `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`+"\n")
			f.server(c.first + "\n")
			said := f.next()
			if c.second != "" {
				f.want(said, "s "+ready+"\n"+asked)
				said = f.server(strings.Replace(c.second, `"id":5`, `"id":2147483646`, 1) + "\n")
			} else {
				said = strings.TrimPrefix(said, "s "+ready+"\n")
			}
			f.want(said, c.told)
			if why, _ := f.Failed(); why != "" || !f.Restored() {
				t.Errorf("it cannot be used: %q", why)
			}
		})
	}
}

// What earlier sessions have seen is told without a server. One that has another list of which the client cannot be told is not used,
// and that list is never told again; an error says nothing.
func TestAloneTellsWhatIsKnown(t *testing.T) {
	result := strings.Replace(strings.Replace(initializeResult, `{"jsonrpc":"2.0","id":1,`, "{", 1), `{"listChanged":true}`, "{}", 1)
	for name, c := range map[string]struct {
		second  string
		changed bool
	}{
		"the same": {listed, false},
		"another":  {strings.Replace(listed, `"a"`, `"b"`, 1), true},
		"an error": {`{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"not now"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := loner(t)
			var saved Published
			forgotten := false
			f.Save = func(_ []byte, news *Published) {
				if forgotten = news == nil; !forgotten {
					saved.Add(*news)
				}
			}
			f.Load = func([]byte) Published {
				return Published{Answers: map[string]Answer{
					"initialize": {Text: json.RawMessage(result)}, "tools/list": {Text: json.RawMessage(`{"result":{"tools":[{"name":"a"}]}}`)},
					"prompts/list": {Text: json.RawMessage(`{"result":{}}`), Until: time.Now().Add(-time.Second)}, "resources/list": {},
				}}
			}
			f.ServerGone("")
			if f.ForgetSaved(); forgotten {
				t.Error("forgotten is what nobody was told")
			}
			f.want(f.from(1, initialize+"\n"), `a {"jsonrpc":"2.0","id":0,`+result[1:])
			f.want(f.from(1, ready+"\n")+f.from(1, `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`+"\n"), "a "+listed)
			for _, kind := range []string{"prompts", "resources"} {
				if f.want(f.from(1, fmt.Sprintf(`{"jsonrpc":"2.0","id":6,"method":"%s/list"}`+"\n", kind)), ""); !f.Waits() {
					t.Errorf("nothing waits for %s", kind)
				}
				f.RefuseHeld("no server")
			}
			f.ServerStarted()
			f.server(strings.Replace(result, "{", `{"id":0,`, 1) + "\n")
			f.server(strings.Replace(c.second, `"id":5`, `"id":2147483646`, 1) + "\n")
			if why, changed := f.Failed(); changed != c.changed || changed != strings.Contains(why, "its list of tools is not the one") {
				t.Errorf("%q, %t", why, changed)
			}
			if _, never := saved.Answers["tools/list"]; never != c.changed || saved.Answers["initialize"].Text == nil {
				t.Errorf("later sessions get %+v", saved)
			}
			if f.ForgetSaved(); !forgotten {
				t.Error("later sessions are told what no server is")
			}
		})
	}
}

// What keeps a server awake, and what does so no more.
func TestAloneBusy(t *testing.T) {
	task := strings.Replace(toolCall, `"params":{`, `"params":{"task":{},`, 1)
	begun := `{"id":1,"result":{"task":{"taskId":"t","status":"working"}}}`
	for name, c := range map[string]struct {
		says []string
		why  string
	}{
		"nothing":                  {nil, ""},
		"a call":                   {[]string{"1" + toolCall}, "1 request of the client unanswered (tools/call)"},
		"a call that was answered": {[]string{"1" + toolCall, `s{"id":1,"result":{}}`}, ""},
		"a call that is cancelled": {[]string{"1" + toolCall, `1{"method":"notifications/cancelled","params":{"requestId":1}}`}, ""},
		"a question":               {[]string{"s" + sampling}, "1 request of the server unanswered (sampling/createMessage)"},
		"one taken back":           {[]string{"s" + sampling, `s{"method":"notifications/cancelled","params":{"requestId":1}}`}, ""},
		"a task of its client": {
			[]string{"s" + strings.Replace(sampling, `"params":{`, `"params":{"task":{},`, 1), `1{"id":1,"result":{"task":{"taskId":"t"}}}`},
			"a task of the server that its client does",
		},
		"a batch": {[]string{`1[{"id":1,"method":"x"}]`}, "a message that could not be read"},
		"noise":   {[]string{"1noise", "snoise"}, ""},
		"a task":  {[]string{"1" + task, "s" + begun}, "1 task of the client running"},
		"a result": {
			[]string{"1" + task, "s" + begun, `s{"method":"notifications/tasks/status","params":{"taskId":"t","status":"completed"}}`},
			"1 task of the client with a result that was not fetched",
		},
		"a result that was fetched": {
			[]string{"1" + task, "s" + begun, `1{"id":6,"method":"tasks/result","params":{"taskId":"t"}}`, `s{"id":6,"result":{}}`}, "",
		},
		"a task that is cancelled": {
			[]string{"1" + task, "s" + begun, `1{"id":6,"method":"tasks/cancel","params":{"taskId":"t"}}`, `s{"id":6,"result":{"status":"cancelled"}}`}, "",
		},
	} {
		f := loner(t)
		f.initialized()
		for _, line := range c.says {
			if line[0] == 's' {
				f.server(line[1:] + "\n")
			} else {
				f.from(1, line[1:]+"\n")
			}
		}
		if why := f.Busy(); why != c.why {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
	}
	if why := loner(t).Busy(); why != "handshake unfinished" {
		t.Errorf("to begin with: %q", why)
	}
}

// A server that takes too long is known by what it has not answered.
func TestAloneLacks(t *testing.T) {
	f := loner(t)
	f.initialized()
	f.from(1, subscribe("subscribe", "file:///a")+"\n")
	f.server(`{"id":1,"result":{}}` + "\n")
	f.ServerGone("")
	f.ServerStarted()
	if why := f.Lacks(); why != "it did not answer the handshake" {
		t.Error(why)
	}
	f.server(strings.Replace(initializeResult, `"id":1`, `"id":0`, 1) + "\n")
	if why := f.Lacks(); why != "it did not answer resources/subscribe" {
		t.Error(why)
	}
}

// News takes the place of what was known, and what must not be answered stays so.
func TestPublishedAdd(t *testing.T) {
	text := func(s string) Answer { return Answer{Text: json.RawMessage(`{"result":"` + s + `"}`)} }
	for name, c := range map[string]struct {
		news    Published
		left    string
		changed bool
	}{
		"the same initialize":    {Published{Answers: map[string]Answer{"initialize": text("a")}}, "[initialize prompts/list tools/list tools/list {}]", true},
		"another initialize":     {Published{Answers: map[string]Answer{"initialize": text("b")}}, "[initialize prompts/list]", true},
		"a list that changes":    {Published{Changed: []string{"tools"}}, "[initialize prompts/list]", true},
		"one that is not known":  {Published{Changed: []string{"resources", "prompts"}}, "[initialize prompts/list tools/list tools/list {}]", false},
		"one not to be answered": {Published{Answers: map[string]Answer{"prompts/list": text("p")}}, "[initialize prompts/list tools/list tools/list {}]", true},
	} {
		known := Published{Answers: map[string]Answer{"initialize": text("a"), "tools/list": text("t"), "tools/list {}": text("u"), "prompts/list": {}}}
		changed := known.Add(c.news)
		if left := fmt.Sprint(slices.Sorted(maps.Keys(known.Answers))); left != c.left || changed != c.changed || known.Answers["prompts/list"].Text != nil {
			t.Errorf("%s: left is %s, changed %t", name, left, changed)
		}
	}
}
