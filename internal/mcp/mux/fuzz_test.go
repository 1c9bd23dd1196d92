package mux

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

// twoClients have a call open each, with a token; 3 is the first one's and 5 the second one's.
func twoClients(t *testing.T) *fixture {
	f := met(t, 1, 2)
	for c := range Client(2) {
		f.from(c+1, `{"id":"own","method":"tools/call","params":{"name":"x","_meta":{"progressToken":"own"}}}`)
		f.from(c+1, subscribe("subscribe", "file:///a"))
	}
	f.server(`{"id":4,"result":{}}`)
	f.server(sampling)
	return f
}

// checkLines checks that each Out is one line, and that JSON became JSON.
func checkLines(t *testing.T, in []byte, outs []Out) {
	t.Helper()
	for _, o := range outs {
		if n := bytes.IndexByte(o.Line, '\n'); n != len(o.Line)-1 {
			t.Fatalf("%q became %q", in, o.Line)
		}
		if json.Valid(in) && !json.Valid(o.Line) {
			t.Fatalf("%q became %q", in, o.Line)
		}
	}
}

// Whatever a client sends, the other one goes on, and it gets only what its own call brings.
func FuzzFromClient(f *testing.F) {
	for _, seed := range []string{
		initialize, ready, toolCall, sampling, `{"id":3,"result":{}}`, `{"id":4,"id":1,"method":"x","params":{"_meta":{"progressToken":4}}}`,
		`[{"id":1,"method":"x"},{"method":"notifications/cancelled","params":{"requestId":4}},{"id":1,"result":{"task":{"taskId":"t"}}}]`,
		`{"method":"notifications/progress","params":{"progressToken":4}}`, level("debug"), subscribe("unsubscribe", "file:///a"),
		`{"id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"id":1,"method":"tasks/get","params":{"taskId":"t"}}`, "{\"id\":1,\"method\":\"\\ud800\",\"params\":[NaN,{]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		m := twoClients(t)
		in := bytes.Clone(line)
		outs := m.FromClient(1, line)
		if !bytes.Equal(in, line) {
			t.Fatal("the input was changed")
		}
		checkLines(t, line, outs)
		for _, o := range outs {
			if o.To == 2 {
				t.Fatalf("%q says %q to another", line, o.Line)
			}
			var msg map[string]json.RawMessage // The case of names counts, unlike in a struct.
			if o.To == Server && json.Unmarshal(o.Line, &msg) == nil && (string(msg["id"]) == "3" || string(msg["id"]) == "5") {
				t.Fatalf("%q became %q", line, o.Line)
			}
		}
		const progress = `{"method":"notifications/progress","params":{"progressToken":5,"progress":1}}`
		m.want(m.server(progress), `b {"method":"notifications/progress","params":{"progressToken":"own","progress":1}}`)
		m.want(m.server(`{"id":5,"result":{}}`), `b {"id":"own","result":{}}`)
		m.FromServer([]byte(`{"id":3,"result":{}}`))
		m.Detach(1)
		m.want(m.server(news("file:///a")), "b "+news("file:///a"))
		m.answerAll()
		if n := len(m.Mux.calls) + len(m.Mux.asks) + m.unanswered(); n != 0 {
			t.Fatalf("%d are left after %q", n, line)
		}
	})
}

// Whatever the server sends, the mux goes on.
func FuzzFromServer(f *testing.F) {
	for _, seed := range []string{
		initializeResult, `{"id":3,"result":{}}`, `{"id":4,"error":{"code":1}}`, sampling, `{"id":"a","method":"roots/list"}`, logged("error"), news("file:///a"),
		`{"method":"notifications/progress","params":{"progressToken":3}}`, `{"method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"id":3,"result":{"task":{"taskId":"t"},"tasks":[{"taskId":"t"}, 7]}}`, `[{"id":3,"result":1},{"id":4,"result":2}]`,
		`{"method":"x","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"io.modelcontextprotocol/subscriptionId":3}}}`,
	} {
		f.Add([]byte(seed), []byte(`{"id":6,"result":{}}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if bytes.IndexByte(first, '\n') >= 0 || bytes.IndexByte(second, '\n') >= 0 {
			return
		}
		m := twoClients(t)
		m.from(1, `{"id":8,"method":"tools/call","params":{"task":{}}}`)
		m.from(2, `{"id":8,"method":"tasks/list"}`)
		for _, line := range [][]byte{first, second} {
			in := bytes.Clone(line)
			outs := m.FromServer(line)
			if !bytes.Equal(in, line) {
				t.Fatal("the input was changed")
			}
			checkLines(t, line, outs)
		}
		m.Detach(1)
		m.answerAll()
		if n := len(m.Mux.calls) + len(m.Mux.asks) + m.unanswered(); n != 0 {
			t.Fatalf("%d are left", n)
		}
	})
}

// answerAll has the last client leave, and the server answer all that it was sent.
func (f *fixture) answerAll() {
	f.Detach(2)
	for rounds := 0; len(f.Mux.calls) > 0 && rounds < 100; rounds++ {
		for n := range f.Mux.calls {
			f.FromServer(fmt.Appendf(nil, `{"id":%s,"result":{}}`, n))
		}
	}
}

// unanswered counts the open requests of all clients.
func (m *Mux) unanswered() int {
	n := 0
	for _, c := range m.clients {
		n += len(c.calls)
	}
	return n
}
