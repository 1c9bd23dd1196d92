package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// shelf stands for the cache: what is known by request, as it is written down.
type shelf map[string]string

func (s shelf) key(request []byte) string {
	return string(ValueAt(request, "method")) + string(ValueAt(request, "params"))
}

func (s shelf) load(request []byte) *Published {
	var p Published
	if text, is := s[s.key(request)]; !is || json.Unmarshal([]byte(text), &p) != nil {
		return nil
	}
	return &p
}

func (s shelf) take(c *Conversation) {
	for request, news := c.TakePublished(); request != nil; request, news = c.TakePublished() {
		key := s.key(request)
		if news.Wrong {
			delete(s, key)
			continue
		}
		p := Published{}
		if old := s.load(request); old != nil {
			p = *old
		}
		if p.Add(news); news.Answer != nil {
			p = news
		}
		text, _ := json.Marshal(p)
		s[key] = string(text)
	}
}

func single(t *testing.T, line string) (m Message) {
	t.Helper()
	one := Scanner{Max: 1 << 20}
	n := 0
	if err := one.Feed([]byte(line+"\n"), func(got Message) { m, n = got, n+1; m.Raw = []byte(line) }); err != nil || n != 1 {
		t.Fatalf("%s: %d messages, %v", line, n, err)
	}
	return m
}

// metAll is a conversation after a handshake with a server, whose reply has these capabilities.
func metAll(t *testing.T, s shelf, capabilities string) *Conversation {
	t.Helper()
	c := &Conversation{}
	c.Publish()
	now := time.Now()
	c.FromClient(single(t, greeting), now)
	c.FromServer(single(t, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{`+capabilities+`}}}`), now)
	c.FromClient(single(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`), now)
	s.take(c)
	return c
}

const greeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`

// say has client and server say lines in turn, and takes what that publishes.
func (s shelf) say(t *testing.T, c *Conversation, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if m := single(t, line); m.Kind == Request {
			c.FromClient(m, time.Now())
		} else {
			c.FromServer(m, time.Now())
		}
	}
	s.take(c)
}

func asked(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)
}

func answered(id int, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result)
}

// What a client is told without a server, after what another session has seen.
func TestTellPublished(t *testing.T) {
	tools := answered(1, `{"tools":[{"name":"a"}]}`)
	for name, c := range map[string]struct {
		seen  []string // after the handshake
		asked string
		want  string // in the line; "" where the server is needed
	}{
		"list":                          {[]string{asked(1, "tools/list"), tools}, asked(5, "tools/list"), `"id":5,"result":{"tools":[{"name":"a"}]}`},
		"templates":                     {[]string{asked(1, "resources/templates/list"), answered(1, `{"resourceTemplates":[]}`)}, asked(5, "resources/templates/list"), `"resourceTemplates":[]`},
		"another list":                  {[]string{asked(1, "tools/list"), tools}, asked(5, "prompts/list"), ""},
		"call":                          {[]string{asked(1, "tools/list"), tools}, asked(5, "tools/call"), ""},
		"error":                         {[]string{asked(1, "tools/list"), `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`}, asked(5, "tools/list"), ""},
		"first page":                    {[]string{asked(1, "tools/list"), answered(1, `{"tools":[],"nextCursor":"n"}`)}, asked(5, "tools/list"), ""},
		"changed since":                 {[]string{asked(1, "tools/list"), tools, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, asked(5, "tools/list"), ""},
		"other changed":                 {[]string{asked(1, "tools/list"), tools, `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`}, asked(5, "tools/list"), `"name":"a"`},
		"after work":                    {[]string{asked(1, "tools/call"), answered(1, `{}`), asked(2, "tools/list"), answered(2, `{"tools":[]}`)}, asked(5, "tools/list"), ""},
		"work and then":                 {[]string{asked(1, "tools/list"), tools, asked(2, "tools/call"), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, asked(5, "tools/list"), `"name":"a"`},
		"template of changed resources": {[]string{asked(1, "resources/templates/list"), answered(1, `{}`), `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`}, asked(5, "resources/templates/list"), ""},
	} {
		s := shelf{}
		s.say(t, metAll(t, s, `"tools":{}`), c.seen...)
		lazy := &Conversation{}
		lazy.Publish()
		if line := lazy.TellPublished(single(t, c.asked), s.load, time.Now()); line != nil {
			t.Errorf("%s: before the handshake there was told %s", name, line)
		}
		if line := lazy.TellPublished(single(t, greeting), s.load, time.Now()); !strings.Contains(string(line), `"id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`) {
			t.Fatalf("%s: the greeting is answered by %q", name, line)
		}
		if line := lazy.TellPublished(single(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`), s.load, time.Now()); line == nil || len(line) > 0 {
			t.Fatalf("%s: told %q for nothing", name, line)
		}
		line := lazy.TellPublished(single(t, c.asked), s.load, time.Now())
		if c.want == "" && line != nil || !strings.Contains(string(line), c.want) {
			t.Errorf("%s: told %q, want %q", name, line, c.want)
		}
		if request, _ := lazy.TakePublished(); request != nil {
			t.Errorf("%s: what was told counts as published", name)
		}
		if steps := lazy.Replay(); len(steps) < 2 || string(steps[0].Line) != greeting+"\n" {
			t.Errorf("%s: a server is sent %v", name, steps)
		}
	}
}

// An answer of 2026-07-28 is told as long as the server allows it, and to who asks the same.
func TestTellModern(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	modern := func(id int, method, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`, id, method, meta, more)
	}
	discovered := `{"supportedVersions":["2026-07-28"],"ttlMs":60000,"cacheScope":"private"}`
	for name, c := range map[string]struct {
		tools, asked string
		after        time.Duration
		want         bool
	}{
		"private":          {`{"tools":[],"ttlMs":60000,"cacheScope":"private"}`, modern(5, "tools/list", ""), 0, true},
		"public":           {`{"tools":[],"ttlMs":60000,"cacheScope":"public"}`, modern(5, "tools/list", ""), 0, true},
		"too late":         {`{"tools":[],"ttlMs":30000,"cacheScope":"public"}`, modern(5, "tools/list", ""), 31 * time.Second, false},
		"clock set back":   {`{"tools":[],"ttlMs":30000,"cacheScope":"public"}`, modern(5, "tools/list", ""), -8 * 24 * time.Hour, false},
		"not at all":       {`{"tools":[],"ttlMs":0,"cacheScope":"private"}`, modern(5, "tools/list", ""), 0, false},
		"nothing said":     {`{"tools":[]}`, modern(5, "tools/list", ""), 0, false},
		"unknown scope":    {`{"tools":[],"ttlMs":60000,"cacheScope":"session"}`, modern(5, "tools/list", ""), 0, false},
		"odd time":         {`{"tools":[],"ttlMs":"60000","cacheScope":"private"}`, modern(5, "tools/list", ""), 0, false},
		"one page of many": {`{"tools":[],"ttlMs":60000,"cacheScope":"private","nextCursor":"n"}`, modern(5, "tools/list", ""), 0, false},
		"asked otherwise":  {`{"tools":[],"ttlMs":60000,"cacheScope":"private"}`, modern(5, "tools/list", `,"cursor":"x"`), 0, false},
		"without version":  {`{"tools":[],"ttlMs":60000,"cacheScope":"private"}`, asked(5, "tools/list"), 0, false},
	} {
		s, first := shelf{}, &Conversation{}
		first.Publish()
		s.say(t, first, modern(1, "server/discover", ""), answered(1, discovered), modern(2, "tools/list", ""), answered(2, c.tools))
		lazy := &Conversation{}
		lazy.Publish()
		now := time.Now()
		if line := lazy.TellPublished(single(t, modern(4, "server/discover", "")), s.load, now); !strings.Contains(string(line), `"id":4,"result":`+discovered) {
			t.Fatalf("%s: told %q", name, line)
		}
		line := lazy.TellPublished(single(t, c.asked), s.load, now.Add(c.after))
		if (line != nil) != c.want || c.want && !strings.Contains(string(line), `"id":5,"result":`+c.tools) {
			t.Errorf("%s: told %q", name, line)
		}
		if why := lazy.MaySleep(now); why != "" || len(lazy.Replay()) > 0 {
			t.Errorf("%s: a server without a handshake: %s, %v", name, why, lazy.Replay())
		}
	}
}

// A server that does not know server/discover is greeted; both come from what is known.
func TestTellProbe(t *testing.T) {
	const probe = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	for code, told := range map[string]bool{"-32601": true, "-32603": false} {
		s := shelf{}
		metAll(t, s, `"tools":{}`)
		first := &Conversation{}
		first.Publish()
		s.say(t, first, probe, `{"jsonrpc":"2.0","id":1,"error":{"code":`+code+`,"message":"no"}}`)
		lazy := &Conversation{}
		lazy.Publish()
		line := lazy.TellPublished(single(t, probe), s.load, time.Now())
		if told != strings.Contains(string(line), `"id":1,"error":{"code":-32601,"message":"no"}`) {
			t.Errorf("%s: told %q", code, line)
		}
		if line := lazy.TellPublished(single(t, greeting), s.load, time.Now()); told && line == nil {
			t.Error("the greeting after it needs a server")
		}
	}
}

// What a new server says otherwise is not known any more; what cannot be told is never told again.
func TestPublishedAdd(t *testing.T) {
	page := json.RawMessage(`{"tools":[]}`)
	base := func() Published {
		return Published{Reply: []byte(`{"a":1}`), Lists: map[string][]json.RawMessage{"tools": {page}, "prompts": {}}}
	}
	for name, c := range map[string]struct {
		news           Published
		tools, prompts string
	}{
		"the same":      {Published{Reply: []byte(`{"a": 1}`)}, "1", "0"},
		"another reply": {Published{Reply: []byte(`{"a":2}`)}, "none", "0"},
		"forgotten":     {Published{Reply: []byte(`{"a":1}`), Lists: map[string][]json.RawMessage{"tools": nil}}, "0", "0"},
		"never again":   {Published{Reply: []byte(`{"a":1}`), Lists: map[string][]json.RawMessage{"prompts": {page}}}, "1", "0"},
		"known again":   {Published{Reply: []byte(`{"a":1}`), Lists: map[string][]json.RawMessage{"tools": {page, page}}}, "2", "0"},
	} {
		p := base()
		p.Add(c.news)
		for kind, want := range map[string]string{"tools": c.tools, "prompts": c.prompts} {
			pages, is := p.Lists[kind]
			if got := fmt.Sprint(len(pages)); is && got != want || !is && want != "none" {
				t.Errorf("%s: %d pages of %s, %t", name, len(pages), kind, is)
			}
		}
	}
}
