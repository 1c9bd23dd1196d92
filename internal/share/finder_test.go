package share

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// finderBefore is a finder that is connected to a host, and the host's end.
func finderBefore(t *testing.T) (f *Finder, host int) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f = &Finder{conn: ends[0], slot: 1, keyed: keyed{key: "k"}}
	t.Cleanup(func() { f.HangUp(); _ = unix.Close(ends[1]) })
	return f, ends[1]
}

// What a host says decides where the session goes on. A host that ends without a word was killed.
func TestHear(t *testing.T) {
	for name, c := range map[string]struct {
		says *Verdict
		want Verdict
		slot int
		key  string
	}{
		"full":   {&Verdict{Next: Full}, Verdict{Next: Full}, 2, "k-2"},
		"anew":   {&Verdict{Next: Anew, Code: 3, Why: "ended"}, Verdict{Next: Anew, Code: 3, Why: "ended"}, 1, "k"},
		"over":   {&Verdict{Code: 3, Why: "stopped"}, Verdict{Code: 3, Why: "stopped"}, 1, "k"},
		"killed": {nil, Verdict{Next: Lost}, 1, "k"},
		"here":   {&Verdict{Next: Here}, Verdict{Next: Here}, 1, "k"},
	} {
		f, host := finderBefore(t)
		if n, ok := f.Receive(); ok || f.Conn() < 0 {
			t.Fatalf("%s: before a word: %+v", name, n)
		}
		if c.says == nil {
			_ = unix.Shutdown(host, unix.SHUT_RDWR)
		} else if err := send(host, *c.says); err != nil {
			t.Fatal(err)
		}
		n, ok := f.Receive()
		if !ok || !reflect.DeepEqual(n, c.want) {
			t.Errorf("%s: %+v, %t", name, n, ok)
		}
		if f.slot != c.slot || f.placeKey() != c.key || (f.Conn() >= 0) != (n.Next == Here) {
			t.Errorf("%s: slot %d of %q, connection %d", name, f.slot, f.placeKey(), f.Conn())
		}
	}
}

// Sessions find each other by their first lines: what begins otherwise is another key. Later lines change nothing.
func TestMeet(t *testing.T) {
	const modern = `{"id":6,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}`
	finder := func(lines ...string) *Finder {
		f := &Finder{keyed: keyed{parts: []part{{"command", []string{"x"}}}}}
		for _, line := range lines {
			f.Meet([]byte(line))
		}
		return f
	}
	seen := map[string]string{}
	for _, line := range []string{
		helloLine, strings.Replace(helloLine, "2025-11-25", "2025-06-18", 1), strings.Replace(helloLine, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1),
		fmt.Sprintf(modern, "tools/list"), strings.Replace(fmt.Sprintf(modern, "tools/list"), "sampling", "roots", 1), fmt.Sprintf(modern, "server/discover"), `{"id":1,"method":"ping"}`,
	} {
		f := finder(line, readyLine)
		if other := seen[f.key]; other != "" {
			t.Errorf("%s has the key of %s", line, other)
		}
		if seen[f.key] = line; f.digests["handshake"] == "" {
			t.Error("ps cannot tell it apart")
		}
	}
	for line, same := range map[string]string{
		`{"params":{"capabilities":{ },"clientInfo":{"name":"x"},"protocolVersion":"2025-11-25"},"id":7,"method":"initialize"}`: helloLine,
		fmt.Sprintf(modern, "tools/call"): fmt.Sprintf(modern, "tools/list"), "odd": `{"id":1,"method":"ping"}`, "": `["odd"]`,
	} {
		if finder(line).key != finder(same).key {
			t.Errorf("%s is apart from %s", line, same)
		}
	}
}

// The runtime directory may be removed while a session runs. Seen to leave sessions that could not be woken any more.
func TestRemovedDirectory(t *testing.T) {
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	f, err := NewFinder([]string{"mcp-tether", "run", "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(runtime + "/mcp-tether"); err != nil {
		t.Fatal(err)
	}
	if started, err := f.tryStart(); started || err != nil {
		t.Fatalf("without its directory: %t, %v", started, err)
	}
	lock, err := f.place().Lock()
	if err != nil {
		t.Fatal(err)
	}
	_ = lock.Remove()
}
