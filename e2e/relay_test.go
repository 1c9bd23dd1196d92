package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// The relay of --hibernate. As long as nothing sleeps, nobody can tell it from streams that are inherited (streams_test.go).

// awakeFlags are those of a session with a relay that never sleeps, with more of them.
func awakeFlags(more ...string) []string {
	return append([]string{"--hibernate=1h", "--stdout-guard=false"}, more...)
}

var stdios = []string{"pipe", "socketpair"}

// readAll reads to the end of the server's stdout.
func (c *client) readAll() []byte {
	c.s.t.Helper()
	_ = c.out.SetReadDeadline(time.Now().Add(testkit.Patience))
	got, err := io.ReadAll(c.out)
	c.s.ok(err)
	return got
}

// oddities are lines that no parser likes, and such as only look odd.
var oddities = []string{
	"", "\r", " ", "\x00", "not JSON", "\xff\xfe\xc3", `{"id":"` + "\xff" + `","method":"x"}`, `{"id":1,"method":"x"`, "]", `"`,
	`{"jsonrpc":"2.0","id":null,"error":{}}`, `[{"id":1,"method":"a"},{"id":2,"method":"b"}]`, "[]", "[[[[", "null", "1e999",
	"\xef\xbb\xbf" + `{"id":5,"method":"ping"}`, `{"id":6,"method":"ping"}` + "\r", "\u2028\u2029\u0085", `{"a":"` + "\t\x1b[31m" + `"}`,
	`{"id":{},"method":[]}`, `{"id":9007199254740993,"method":"notifications/cancelled","params":{"requestId":1}}`,
}

// conversation is text of every kind that a relay may meet, in pieces of random sizes. The last line has no newline.
func conversation(seed seed) (pieces [][]byte) {
	text := []byte(strings.Join(oddities, "\n") + "\n")
	for i := range 40 {
		random := make([]byte, seed.IntN(4*kib))
		for i := range random {
			random[i] = byte(seed.Uint32())
		}
		text = append(text, random...)
		text = fmt.Appendf(text, "\n"+`{"jsonrpc":"2.0","id":%d,"result":{"data":"%s"}}`+"\r\n", i, bytes.Repeat([]byte{'A'}, seed.IntN(100*kib)))
	}
	text = append(text, `{"jsonrpc":"2.0","id":7,"method":"last`...)
	for len(text) > 0 {
		n := min(len(text), 1+seed.IntN([]int{3, 200, 5000, 100 * kib}[seed.IntN(4)]))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// Whatever is said, both sides get the bytes that were sent, where nothing is held to be no message. The control is a server that changes one kind of byte.
func TestRelayIsTransparent(t *testing.T) {
	t.Parallel()
	pieces := conversation(newSeed(t))
	text := bytes.Join(pieces, nil)
	for name, filter := range map[string]string{"pipe": "cat", "socketpair": "cat", "control": `tr '\r' '\n'`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := filepath.Join(t.TempDir(), "kept")
			stdio := strings.Replace(name, "control", "pipe", 1)
			c := newClient(t, stdio, awakeFlags(), "/bin/sh", "-c", `tee "$0" | `+filter, kept)
			go func() {
				for _, p := range pieces {
					if _, err := c.in.Write(p); err != nil {
						return
					}
				}
				_ = c.in.Close()
			}()
			got := c.readAll()
			wantCode(t, c, 0)
			received, err := os.ReadFile(kept)
			ok(t, err)
			if !bytes.Equal(received, text) || bytes.Equal(got, text) != (name != "control") {
				t.Errorf("of %d bytes the server got %d, and the client %d, or others", len(text), len(received), len(got))
			}
		})
	}
}

// lineOf is a notification of so many bytes, with its newline: nobody owes an answer.
func lineOf(size int) []byte {
	head, tail := `{"jsonrpc":"2.0","method":"x","params":{"data":"`, `"}}`+"\n"
	return []byte(head + strings.Repeat("A", size-len(head)-len(tail)) + tail)
}

// A message may have 64 MiB. One byte more ends the session, with an error for the client and one in the log.
func TestRelayLimitsLines(t *testing.T) {
	t.Parallel()
	const most = 64 * mib
	flags := awakeFlags(quick()...)
	t.Run("within", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, "pipe", awakeFlags(polite()...), "cat")
		go func() { _, _ = c.in.Write(lineOf(most + 1)); _ = c.in.Close() }() // With its newline.
		if got := c.readAll(); !bytes.Equal(got, lineOf(most+1)) {
			t.Errorf("%d bytes came back", len(got))
		}
		wantCode(t, c, 0)
	})
	t.Run("beyond", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, "pipe", flags, "/bin/sh", "-c", "cat >/dev/null")
		go func() { _, _ = c.in.Write(lineOf(most + 2)) }()
		var r reply
		if text := c.readAll(); json.Unmarshal(text, &r) != nil || r.Error == nil || r.ID != nil || !strings.Contains(r.Error.Message, "message too long") {
			t.Errorf("the client got %.200q", text)
		}
		_ = c.exitCode()
		c.s.Gone()
		c.s.EndedWhole("message-too-long")
	})
}

// lotsOf are so many lines in a file.
func lotsOf(t *testing.T, size int) (path string, text []byte) {
	t.Helper()
	line := lineOf(1000)
	text = bytes.Repeat(line, size/len(line))
	path = filepath.Join(t.TempDir(), "lots")
	ok(t, os.WriteFile(path, text, 0o600))
	return path, text
}

func wantCode(t *testing.T, c *client, code int) {
	t.Helper()
	if got := c.exitCode(); got != code {
		t.Errorf("exit %d, want %d", got, code)
	}
	c.s.Gone()
}

// The ends of the streams come in the order in which they were made.
func TestRelayKeepsTheOrderOfEnds(t *testing.T) {
	t.Parallel()
	words := bytes.Repeat([]byte("0123456789abcde\n"), 4*kib)
	for _, stdio := range stdios {
		t.Run(stdio+"/stdin first", func(t *testing.T) {
			t.Parallel()
			c := newClient(t, stdio, awakeFlags(polite()...), "/bin/sh", "-c", `wc -c; cat "$0"; exit 5`, fixture)
			_, err := c.in.Write(words)
			c.s.ok(errors.Join(err, c.in.Close()))
			want, err := os.ReadFile(fixture)
			ok(t, err)
			if got := c.readAll(); !bytes.Equal(bytes.TrimLeft(got, " "), append([]byte("65536\n"), want...)) {
				t.Errorf("got %d bytes, or others", len(got))
			}
			wantCode(t, c, 5)
		})
		t.Run(stdio+"/stdout first", func(t *testing.T) {
			t.Parallel()
			kept := filepath.Join(t.TempDir(), "kept")
			c := newClient(t, stdio, awakeFlags(polite()...), "/bin/sh", "-c", `echo hello; exec >&-; cat >"$0"; exit 6`, kept)
			_, err := c.in.Write(words) // It may be read when stdout has been closed.
			c.s.ok(errors.Join(err, c.in.Close()))
			if got := string(c.readAll()); got != "hello\n" {
				t.Errorf("before the end of stdout came %q", got)
			}
			wantCode(t, c, 6)
			if got, err := os.ReadFile(kept); err != nil || !bytes.Equal(got, words) {
				t.Errorf("of what was sent after it had closed stdout, the server got %d bytes, %v", len(got), err)
			}
		})
	}
}

// Streams may be files.
func TestRelayBetweenFiles(t *testing.T) {
	t.Parallel()
	path, text := lotsOf(t, mib)
	in, err := os.Open(path)
	ok(t, err)
	out, err := os.OpenFile(path+".out", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ok(t, err)
	c := startOn(t, in, out, awakeFlags(), "cat")
	wantCode(t, c, 0)
	if got, err := os.ReadFile(path + ".out"); err != nil || !bytes.Equal(got, text) {
		t.Errorf("got %d bytes of %d, or others (%v)", len(got), len(text), err)
	}
}

// capacityOf is that of a pipe, in bytes. It is less than usual where the user has too many pipes (pipe(7)).
func capacityOf(t *testing.T, f *os.File) (n int) {
	t.Helper()
	raw, err := f.SyscallConn()
	ok(t, err)
	ok(t, raw.Control(func(fd uintptr) { n, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }))
	ok(t, err)
	return n
}

// A client that does not speak in lines, as in LSP, is passed through unread, both ways and at once, and whatever was asked for. The
// control is the same without its first header: nothing comes before the end of the line.
func TestRelayPassesOtherFramings(t *testing.T) {
	t.Parallel()
	const body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	framed := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	for name, flags := range map[string][]string{
		"hibernate": {"--hibernate=500ms"}, "lazy": {"--lazy"}, "restart": {"--on-crash=restart"}, "share": {"--share"}, "guard": {"--stdout-guard"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, "pipe", append(flags, polite()...), "cat")
			for _, part := range []string{framed[:7], framed[7:]} {
				_, err := c.in.WriteString(part)
				ok(t, err)
				pause(20 * time.Millisecond)
			}
			got := make([]byte, len(framed))
			_ = c.out.SetReadDeadline(time.Now().Add(testkit.Patience))
			if n, err := io.ReadFull(c.out, got); err != nil || string(got) != framed {
				t.Fatalf("got %q, %v", got[:n], err)
			}
			_, err := c.in.WriteString(framed + "x")
			c.s.ok(errors.Join(err, c.in.Close()))
			if rest := c.readAll(); string(rest) != framed+"x" {
				t.Errorf("then %q", rest)
			}
			wantCode(t, c, 0)
		})
	}
	c := newClient(t, "pipe", awakeFlags(polite()...), "cat")
	_, err := c.in.WriteString(body)
	ok(t, err)
	pause(200 * time.Millisecond)
	_ = c.out.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := c.out.Read(make([]byte, 10)); err == nil {
		t.Errorf("%d bytes of half a line came", n)
	}
	ok(t, c.in.Close())
	if rest := c.readAll(); string(rest) != body {
		t.Errorf("in the end %q", rest)
	}
	wantCode(t, c, 0)
}
