package mcp

import (
	"slices"
	"strings"
	"testing"
)

const (
	askRoots  = `<{"jsonrpc":"2.0","id":0,"method":"roots/list"}`
	giveRoots = `>{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}`
	denyRoots = `>{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"no"}}`
)

// Only a server that asks for roots before it has any work, or in its first seconds with no call open, is known to do so at its
// start.
func TestMaySleepOnlyIfRootsCanBeHadAgain(t *testing.T) {
	const late = "the server asked for the client's roots in the middle of its work"
	call := []string{ask(">", 1, "tools/call", "{}"), reply("<", 1, "{}")}
	list := []string{ask(">", 2, "tools/list", "{}"), reply("<", 2, "{}")}
	given := []string{askRoots, giveRoots}
	all := slices.Concat[[]string]
	checkSleep(t, []string{initialize, welcome, initialized}, []sleepCase{
		{"at the start", given, ""},
		{"after a list", all(list, given), ""},
		{"at the start, then again", all(given, call, given), ""},
		{"soon after a call", all(call, []string{"+4s"}, given), ""},
		{"after a call", all(call, []string{"+5s"}, given), late},
		{"while a call is open", all(call[:1], given, call[1:]), late},
		{"because they have changed", all([]string{`>{"method":"notifications/roots/list_changed"}`, "+5s"}, given), late},
		{"soon because they have changed", all([]string{`>{"method":"notifications/roots/list_changed"}`}, given), ""},
		{"after a call with the id null, long ago", all([]string{ask(">", "null", "tools/call", "{}"), "+1h"}, given), late},
		{"the next server at its start", all(call, []string{"+1m"}, given, []string{"gone"}, given), ""},
	})
}

// What may have made a server ask for roots is said again to the next one: a request for a list that was open, and the news that
// they have changed. What was answered before is not.
func TestReplaySaysAgainWhatMadeTheServerAsk(t *testing.T) {
	const changed = `>{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	first, list := ask(">", 1, "prompts/list", "{}"), ask(">", 2, "tools/list", `{"_meta":{"a":1}}`)
	for name, tt := range map[string]struct{ lines, want []string }{
		"a list":     {[]string{first, reply("<", 1, "{}"), list, askRoots, giveRoots, reply("<", 2, "{}")}, []string{list}},
		"a change":   {[]string{changed, askRoots, giveRoots}, []string{changed}},
		"both":       {[]string{changed, list, askRoots, giveRoots}, []string{list, changed}},
		"by itself":  {[]string{askRoots, giveRoots, changed, list, askRoots, giveRoots}, nil},
		"never asks": {[]string{changed, list}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Conversation{}
			talk(t, c, strings.Replace(initialize, `"id":0`, `"id":"i"`, 1), strings.Replace(strings.Replace(welcome, `"id":0`, `"id":"i"`, 1), `"listChanged":true`, "", 1), initialized)
			talk(t, c, append(tt.lines, "gone", "gone")...)
			var got []string
			for _, s := range c.Replay()[2:] {
				if s.Roots {
					break
				}
				got = append(got, ">"+strings.TrimSuffix(string(s.Line), "\n"))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("it is told %q, want %q", got, tt.want)
			}
		})
	}
}

// A new server has the roots once it has asked and was answered. That counts for each new one.
func TestHasRoots(t *testing.T) {
	for name, tt := range map[string]struct {
		lines       []string
		has, denied bool
	}{
		"never asked":            {[]string{"gone"}, true, false},
		"not yet":                {[]string{askRoots, giveRoots, "gone"}, false, false},
		"asked":                  {[]string{askRoots, giveRoots, "gone", askRoots}, false, false},
		"answered":               {[]string{askRoots, giveRoots, "gone", askRoots, giveRoots}, true, false},
		"asked again":            {[]string{askRoots, giveRoots, "gone", askRoots, giveRoots, askRoots}, false, false},
		"third server":           {[]string{askRoots, giveRoots, "gone", askRoots, giveRoots, "gone"}, false, false},
		"denied now":             {[]string{askRoots, giveRoots, "gone", askRoots, denyRoots}, true, true},
		"denied after a failure": {[]string{askRoots, giveRoots, "gone", "gone", askRoots, denyRoots}, true, true},
		"denied twice":           {[]string{askRoots, giveRoots, "gone", askRoots, denyRoots, "gone", askRoots, denyRoots}, true, true},
		"given, then denied":     {[]string{askRoots, denyRoots, "gone", askRoots, giveRoots, "gone", askRoots, denyRoots}, true, false},
		"denied while it works":  {[]string{askRoots, giveRoots, "gone", "used", askRoots, denyRoots, "gone", askRoots, denyRoots}, true, false},
		"denied ever":            {[]string{askRoots, denyRoots, "gone", askRoots, denyRoots}, true, false},
		"denied at first":        {[]string{"gone", askRoots, denyRoots}, true, false},
		"denied after silence":   {[]string{askRoots, "gone", askRoots, denyRoots}, true, false},
		"given, silence, denied": {[]string{askRoots, giveRoots, "gone", "used", askRoots, "gone", askRoots, denyRoots}, true, true},
		"denied, then given":     {[]string{askRoots, denyRoots, askRoots, giveRoots, "gone", askRoots, denyRoots}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Conversation{}
			talk(t, c, append([]string{initialize, welcome, initialized}, tt.lines...)...)
			if has, denied := c.HasRoots(); has != tt.has || denied != tt.denied {
				t.Errorf("%t, %t", has, denied)
			}
		})
	}
}

// A message that does not use the server does not keep it awake: each is reported as use or not.
func TestUse(t *testing.T) {
	c := &Conversation{}
	for _, tt := range []struct {
		line string
		used bool
	}{
		{initialize, true}, {welcome, true}, {initialized, true},
		{ask(">", 1, "ping", "{}"), false}, {reply("<", 1, "{}"), false},
		{ask("<", 1, "ping", "{}"), false}, {reply(">", 1, "{}"), false},
		{reply(">", 9, "{}"), false}, {reply("<", 9, "{}"), false}, {refuse("<", "null", -32700), false},
		{cancel(">", 7), false}, {ask(">", 7, "tools/call", "{}"), true}, {cancel(">", 7), true},
		{ask(">", 8, "tools/call", "{}"), true}, {reply("<", 8, "{}"), true},
		{askRoots, true}, {giveRoots, true}, {`<{"method":"notifications/message"}`, true}, {">what", true},
	} {
		text, used := tt.line[1:], false
		err := (&Scanner{}).Feed([]byte(text+"\n"), func(m Message) {
			if tt.line[0] == '>' {
				used = c.FromClient(m, began())
			} else {
				used = c.FromServer(m, began())
			}
		})
		if err != nil || used != tt.used {
			t.Errorf("%s: %t, %v", tt.line, used, err)
		}
	}
}
