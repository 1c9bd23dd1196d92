package mux

import (
	"strings"
	"testing"
)

const (
	initialize       = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
	ready            = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	initializeResult = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}}`
)

// fixture drives a mux and remembers what it said.
type fixture struct {
	*Mux
	t *testing.T
}

func newFixture(t *testing.T) *fixture { return &fixture{New(), t} }

// met has clients with a finished handshake. The ids of the mux go on at 2.
func met(t *testing.T, clients ...Client) *fixture {
	t.Helper()
	f := newFixture(t)
	for i, c := range clients {
		f.Attach(c)
		f.from(c, initialize)
		if i == 0 {
			f.server(initializeResult)
		}
		f.from(c, ready)
	}
	return f
}

// said writes outs as "receiver line" each.
func said(outs []Out) string {
	var b strings.Builder
	for _, o := range outs {
		b.WriteByte("sabcdefgh"[o.To])
		b.WriteByte(' ')
		b.Write(o.Line)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (f *fixture) from(c Client, line string) string {
	f.t.Helper()
	return said(f.FromClient(c, []byte(line)))
}

func (f *fixture) server(line string) string { return said(f.FromServer([]byte(line))) }

func (f *fixture) want(got, want string) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
