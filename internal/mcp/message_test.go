package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a line is, and what it says of itself.
func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"":                                  "opaque",
		" \r":                               "opaque",
		"ready":                             "opaque",
		"[INFO] listening":                  "opaque",
		"[]":                                "opaque",
		"42":                                "opaque",
		`"text"`:                            "opaque",
		"\x1b[32mready\x1b[0m":              "opaque",
		`{"method":"x",'odd':1}`:            "unclear", // a lenient parser may take it
		"{debug} ready":                     "opaque",
		"{":                                 "opaque",
		"{}":                                "opaque",
		`{"level":"info"}`:                  "opaque",
		`{"id":1,"method":"x"`:              "opaque", // no parser takes half a message
		`{"id":1,"method":"x","params":{"a`: "opaque",
		`{"id":1,"method":"x"} rest`:        "unclear",
		`{'id':1}`:                          "unclear",
		`{"id":1,,"method":"x"}`:            "unclear",
		`{"id":1 "method":"x"}`:             "unclear",
		`{"id":,"method":"x"}`:              "unclear",
		`{"id":{},"method":"x"}`:            "unclear",
		`{"id":1,"method":7}`:               "unclear",
		"\ufeff{\"id\":1,\"method\":\"x\"}": "unclear",
		"\ufeffready":                       "opaque",
		`[{"id":1,"method":"x"}]`:           "unclear",
		` { "id" : 1 , "method" : "x" } `:   "request 1 x",
		`{"method":"\u0078","id":"\u00e9"}`: `request "é" x`,
		`{"id":9007199254740993,"method":"x","params":{"id":5,"method":"y","error":{}}}`: "request 9007199254740993 x",
		`{"id":1,"id":2,"method":"x"}`:                                 "request 2 x",
		`{"ID":1,"method":"x"}`:                                        "notification x",
		`{"method":"x","params":{"a":"}\"{","b":[NaN,{}]}}`:            "notification x",
		`{"id":null,"method":"x"}`:                                     "request null x",
		`{"id":"a","result":{"error":1}}`:                              `response "a"`,
		`{"id":1,"error":{"code":1}}`:                                  "response 1 error",
		`{"id":1,"result":{},"error":null}`:                            "response 1",
		`{"jsonrpc":"2.0","result":` + strings.Repeat("[", 500) + `}}`: "opaque",
	} {
		for _, end := range []string{"", "\n", "\r\n"} {
			m := Parse([]byte(line + end))
			got := []string{"opaque", "unclear", "request", "notification", "response"}[m.Kind]
			for _, word := range []string{m.ID, m.Method} {
				if word != "" {
					got += " " + word
				}
			}
			if m.IsError {
				got += " error"
			}
			if got != want {
				t.Errorf("%q is %s, want %s", line+end, got, want)
			}
		}
	}
}

// An answer is found however its sender writes the id.
func TestNormalID(t *testing.T) {
	for raw, want := range map[string]string{
		"1": "1", "1.5": "1.5", "-1": "-1", "9007199254740993": "9007199254740993",
		`"a"`: `"a"`, `"\u0061"`: `"a"`, `"a\"b"`: `"a\"b"`, "null": "null", "true": "true",
	} {
		if id, ok := NormalID([]byte(raw)); id != want || !ok {
			t.Errorf("%s is %s, %t, want %s", raw, id, ok, want)
		}
	}
	for _, raw := range []string{"", "{}", "[1]"} {
		if id, ok := NormalID([]byte(raw)); ok {
			t.Errorf("%q can be an id: %s", raw, id)
		}
	}
}

// Parse agrees with encoding/json wherever that reads a message, and finds values that are as they stand there.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,"\\\"",{}]}}}`,
		`{"id":"\u00e9","result":{"content":[{"type":"text","text":"}{"}]}}`, `{"id":2,"error":{"code":-32603,"message":"no"}}`,
		`{"method":"notifications/x","params":{"_meta":{"progressToken":1.0}}}`, `[{"id":1,"method":"x"}]`, `{"id":1,"id":null,"method":"x"}`,
		"{\"id\":1\t,\r\"method\" : \"x\"}", `{'id':1}`, "\ufeff{}", `{"a":{"b":"c"},"method":"x","params":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 || !utf8.Valid(line) {
			return
		}
		in := bytes.Clone(line)
		m := Parse(line)
		if !bytes.Equal(in, line) || !bytes.Equal(m.Line, line) {
			t.Fatal("the line is changed")
		}
		for _, s := range []Span{m.IDSpan, m.Params, m.Result, m.Error} {
			if s.From > s.To || s.To > len(m.Raw) {
				t.Fatalf("%q: %v", line, s)
			}
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(line, &members) != nil || members == nil {
			return
		}
		if m.Kind == Unclear && len(members["id"]) > 0 && members["id"][0] != '{' && members["id"][0] != '[' && (members["method"] == nil || members["method"][0] == '"') {
			t.Fatalf("%q is unclear", line)
		}
		for name, s := range map[string]Span{"params": m.Params, "result": m.Result, "error": m.Error, "id": m.IDSpan} {
			if m.Kind == Opaque || m.Kind == Unclear {
				continue
			}
			if got := s.Of(m.Raw); string(got) != string(members[name]) {
				t.Fatalf("%q: %s is %q, want %q", line, name, got, members[name])
			}
		}
		for name := range members {
			if At(m.Raw, name).To == 0 {
				t.Fatalf("%q: %q is not found", line, name)
			}
		}
	})
}

// A message of any size is read once: twice the size takes twice the time, so a very large one is read in this test's time.
func TestParseIsLinear(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 200_000) + strings.Repeat("]}", 200_000)
	escapes := strings.Repeat(`\\`, 1<<20)
	m := Parse(fmt.Appendf(nil, `{"id":1,"result":{"deep":%s,"text":"%s","more":"%s"}}`, deep, escapes, strings.Repeat("x", 8<<20)))
	if m.Kind != Response || m.ID != "1" {
		t.Errorf("kind %d, id %s", m.Kind, m.ID)
	}
}
