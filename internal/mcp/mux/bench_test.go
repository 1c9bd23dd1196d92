package mux

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// A call and its answer, of fifty clients in turn.
func BenchmarkRoundTrip(b *testing.B) { benchmarkRoundTrip(b, "tools/call", "hello") }

// The same with an answer of 10 MiB: its inside is passed over once, by quotes and brackets, and copied once.
func BenchmarkLargeAnswer(b *testing.B) {
	benchmarkRoundTrip(b, "tools/call", strings.Repeat("QUJDRUZHSElKS0xNTk9QUVJTVFVWV1hZWmFiY2RlZmdoaWprbG1ub3A=", 10<<20/56))
}

func benchmarkRoundTrip(b *testing.B, method, text string) {
	b.Helper()
	m := New(Limits{})
	const clients = 50
	for c := range Client(clients) {
		m.Attach(c + 1)
		if _, err := m.FromClient(c+1, []byte(hello)); err != nil {
			b.Fatal(err)
		}
		if c == 0 {
			m.FromServer([]byte(welcome))
		}
		_, _ = m.FromClient(c+1, []byte(ready))
	}
	ask := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1234,"method":%q,"params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"progressToken":1234}}}`, method)
	tail := fmt.Appendf(nil, `,"result":{"content":[{"type":"text","text":"%s"}]}}`, text)
	var answer []byte
	b.SetBytes(int64(len(ask) + len(tail)))
	b.ReportAllocs()
	var c Client
	for b.Loop() {
		c = c%clients + 1
		outs, err := m.FromClient(c, ask)
		if err != nil || len(outs) != 1 {
			b.Fatal(err)
		}
		answer = append(answer[:0], `{"jsonrpc":"2.0","id":`...)
		answer = append(strconv.AppendInt(answer, m.lastID, 10), tail...)
		if outs := m.FromServer(answer); len(outs) != 1 || outs[0].To != c || !bytes.Contains(outs[0].Line[:40], []byte(`"id":1234,`)) {
			b.Fatal("no answer")
		}
	}
}
