package doctor

import (
	"bytes"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	leak := func(processes int, bytes uint64) Check {
		return Check{About: AboutLeaks, State: Fail, Count: Count{Processes: processes, MemoryBytes: bytes}}
	}
	client := func(state State, servers, bare int) Check {
		return Check{About: aboutClients, State: state, Count: Count{Servers: servers, Bare: bare}}
	}
	fine, suspect := good(AboutLeaks, "nothing"), Check{About: AboutLeaks, State: Warn}
	for want, all := range map[string][]Check{
		"nothing leaks; 14 of 14 servers are wrapped":               {fine, client(OK, 2, 0), client(OK, 12, 0)},
		"nothing leaks; 12 of 14 servers are wrapped":               {fine, client(OK, 10, 0), client(Warn, 4, 2)},
		"nothing leaks; no server was found in a configuration":     {fine, client(Warn, 0, 0)},
		"leaks: 3, with 123M of memory; 0 of 1 servers are wrapped": {leak(1, 100<<20), leak(2, 20<<20), leak(1, 3<<20), client(Warn, 1, 1)},
		"leaks: 1; 1 of 1 servers are wrapped":                      {leak(0, 0), suspect, client(OK, 1, 0)},
		"nothing is proven to leak; 2 of 2 servers are wrapped":     {suspect, client(OK, 2, 0)},
		"nothing leaks; records, limits failed; 2 of 2 servers are wrapped": {
			poor(Fail, "records", "", ""), poor(Fail, "limits", "", ""), poor(Fail, "records", "", ""), poor(Warn, "kernel", "", ""), fine, client(OK, 2, 0)},
	} {
		if got := verdict(all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		var b bytes.Buffer
		if err := Text(&b, all, func(_ State, text string) string { return text }); err != nil || !strings.HasPrefix(b.String(), want+"\n") {
			t.Errorf("%q begins no text: %q, %v", want, b.String(), err)
		}
	}
}
