package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// The relay of --hibernate. As long as nothing sleeps, nobody can tell it from streams that are inherited.

// awakeFlags are those of a session with a relay that never sleeps, with more of them.
func awakeFlags(more ...string) []string { return append([]string{"--hibernate=1h"}, more...) }

// ways are both kinds of session: what holds for the second must hold for the first.
var ways = map[string][]string{"inherited": nil, "relay": awakeFlags()}

var stdios = []string{"pipe", "socketpair"}

// sums are the hashes of what the server and the client have received.
type sums struct{ server, client string }

func sumOf(b []byte) string { return fmt.Sprintf("%x, %d bytes", sha256.Sum256(b), len(b)) }

// roundTrip sends the text in pieces of random sizes to a server, which keeps what it gets and sends it back through
// the filter. The server ends at the end of its input.
func roundTrip(t *testing.T, seed seed, stdio string, flags []string, filter string, text []byte) sums {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "kept")
	c := newClient(t, stdio, flags, "/bin/sh", "-c", `tee "$0" | `+filter, kept)
	pieces := cut(seed, text)
	go func() {
		for _, p := range pieces {
			if _, err := c.in.Write(p); err != nil {
				return
			}
		}
		_ = c.in.Close()
	}()
	got := c.readAll()
	if code := c.exitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
	c.s.gone()
	received, err := os.ReadFile(kept)
	noError(t, err)
	return sums{sumOf(received), sumOf(got)}
}

// readAll reads to the end of the server's stdout.
func (c *client) readAll() []byte {
	c.s.t.Helper()
	_ = c.out.SetReadDeadline(time.Now().Add(testkit.Patience))
	got, err := io.ReadAll(c.out)
	c.s.ok(err)
	return got
}

func cut(seed seed, text []byte) [][]byte {
	var pieces [][]byte
	for len(text) > 0 {
		n := min(len(text), 1+seed.IntN([]int{3, 200, 5000, 100 * kib}[seed.IntN(4)]))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// oddities are lines that no parser likes, and such as only look odd.
var oddities = []string{
	"", "\r", " ", "\x00", "not JSON", "\xff\xfe\xc3", `{"id":"` + "\xff" + `","method":"x"}`, `{"id":1,"method":"x"`, "]", `"`,
	`{"jsonrpc":"2.0","id":null,"error":{}}`, `[{"id":1,"method":"a"},{"id":2,"method":"b"}]`, "[]", "[[[[", "null", "1e999",
	"\xef\xbb\xbf" + `{"id":5,"method":"ping"}`, `{"id":6,"method":"ping"}` + "\r", "\u2028\u2029\u0085", `{"a":"` + "\t\x1b[31m" + `"}`,
	`{"id":{},"method":[]}`, `{"id":9007199254740993,"method":"notifications/cancelled","params":{"requestId":1}}`,
}

// conversation is text of every kind that a relay may meet, and a last line without a newline.
func conversation(seed seed) []byte {
	var b bytes.Buffer
	for i := range 300 {
		switch seed.IntN(4) {
		case 0:
			b.WriteString(oddities[seed.IntN(len(oddities))])
		case 1:
			fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"x":%q}}`, i, strings.Repeat("é\n", seed.IntN(2000)))
		case 2:
			fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"result":{"data":"%s"}}`, i, bytes.Repeat([]byte{'A'}, seed.IntN(300*kib)))
		case 3:
			random := make([]byte, seed.IntN(4*kib))
			for i := range random {
				random[i] = byte(seed.Uint32())
			}
			b.Write(random)
		}
		b.WriteString([]string{"\n", "\r\n"}[seed.IntN(2)])
	}
	b.WriteString(`{"jsonrpc":"2.0","id":7,"method":"last`)
	return b.Bytes()
}

// Whatever is said, both sides get the same bytes as without the relay: those that were sent.
func TestRelayIsTransparent(t *testing.T) {
	seed := newSeed(t)
	text := conversation(seed)
	want := sums{sumOf(text), sumOf(text)}
	for _, stdio := range stdios {
		for way, flags := range ways {
			t.Run(stdio+"/"+way, func(t *testing.T) {
				if got := roundTrip(t, seed, stdio, flags, "cat", text); got != want {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
	t.Run("control", func(t *testing.T) {
		if got := roundTrip(t, seed, "pipe", awakeFlags(), `tr '\r' '\n'`, text); got == want || got.server != want.server {
			t.Errorf("a server that changes a byte goes unnoticed: %v", got)
		}
	})
}

// Each odd line alone, as the first and the last that is said, with each ending.
func TestRelayPassesOddLines(t *testing.T) {
	t.Parallel()
	for i, odd := range oddities {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for _, end := range []string{"\n", "\r\n", ""} {
				text := []byte(odd + end)
				want := sums{sumOf(text), sumOf(text)}
				if got := roundTrip(t, newSeed(t), stdios[i%2], awakeFlags(), "cat", text); got != want {
					t.Errorf("%q: got %v, want %v", text, got, want)
				}
			}
		})
	}
}

// lineOf is a message of so many bytes, without its newline.
func lineOf(size int) []byte {
	head, tail := `{"jsonrpc":"2.0","id":1,"method":"x","params":{"data":"`, `"}}`
	return []byte(head + strings.Repeat("A", size-len(head)-len(tail)) + tail)
}

// A message may be as long as --max-message says, and 64 MiB without it.
func TestRelayPassesLinesUpToTheLimit(t *testing.T) {
	for _, x := range []struct {
		flag string
		size int
	}{{"--max-message=1MiB", mib}, {"--max-message=100", 100}, {"--log-level=info", 64 * mib}} {
		for _, stdio := range stdios {
			t.Run(fmt.Sprintf("%s/%d", stdio, x.size), func(t *testing.T) {
				if x.size > mib {
					testkit.Long(t)
				}
				line := append(lineOf(x.size), '\n')
				text := bytes.Repeat(line, 2)
				want := sums{sumOf(text), sumOf(text)}
				if got := roundTrip(t, newSeed(t), stdio, awakeFlags(x.flag), "cat", text); got != want {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
}

// One byte more ends the session, with an error for the client and one in the log; without a relay it does not.
func TestRelayRefusesLongerLines(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		flag string
		size int
	}{{"--max-message=1MiB", mib}, {"--max-message=100", 100}, {"--log-level=info", 64 * mib}} {
		t.Run("to the server/"+strconv.Itoa(x.size), func(t *testing.T) {
			if x.size > mib {
				testkit.Long(t)
			}
			t.Parallel()
			c := newClient(t, "pipe", awakeFlags(quick(x.flag)...), "/bin/sh", "-c", "cat >/dev/null")
			go func() { _, _ = c.in.Write(append(lineOf(x.size+1), '\n')) }()
			c.tooLong(t, x.size)
		})
		t.Run("control/"+strconv.Itoa(x.size), func(t *testing.T) {
			if x.size > mib {
				testkit.Long(t)
			}
			t.Parallel()
			text := append(lineOf(x.size+1), '\n')
			if got := roundTrip(t, newSeed(t), "pipe", nil, "cat", text); got != (sums{sumOf(text), sumOf(text)}) {
				t.Errorf("got %v", got)
			}
		})
	}
	t.Run("from the server", func(t *testing.T) {
		t.Parallel()
		long := filepath.Join(t.TempDir(), "long")
		noError(t, os.WriteFile(long, append([]byte("first\n"), lineOf(mib+1)...), 0o600))
		c := newClient(t, "pipe", awakeFlags(quick("--max-message=1MiB")...), "/bin/sh", "-c", `cat "$0"; cat >/dev/null`, long)
		c.tooLong(t, mib)
	})
}

// tooLong expects the end of a session with a message that is too long.
func (c *client) tooLong(t *testing.T, limit int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(c.readAll()), "\n"), "\n")
	var r reply
	last := lines[len(lines)-1]
	if err := json.Unmarshal([]byte(last), &r); err != nil || r.Error == nil || r.ID != nil {
		t.Errorf("the client's last line is no error: %.200q", last)
	} else if !strings.Contains(r.Error.Message, "--max-message") || !strings.Contains(r.Error.Message, strconv.Itoa(limit)) {
		t.Errorf("the client is not told which limit: %q", r.Error.Message)
	}
	_ = c.exitCode()
	c.s.gone()
	c.s.endedWhole("message-too-long")
	log, err := os.ReadFile(c.s.log)
	noError(t, err)
	if !strings.Contains(string(log), "--max-message") {
		t.Errorf("the log does not say why: %s", log)
	}
}

// steady waits until a count has begun and stopped, and gives it. It cannot see that nothing moves any more, only that
// nothing has for a while: where the count would go on, the caller's bound tells. On a busy machine the count may be
// given too early, which makes the test miss something, but never fail.
func steady(t *testing.T, count func() int64) int64 {
	t.Helper()
	testkit.Until(t, "a first byte", func() bool { return count() > 0 })
	last, since := count(), time.Now()
	for deadline := time.Now().Add(testkit.Patience); time.Since(since) < 500*time.Millisecond; pause(5 * time.Millisecond) {
		if now := count(); now != last {
			last, since = now, time.Now()
		}
		if time.Now().After(deadline) {
			t.Fatalf("it goes on and on: %d", last)
		}
	}
	return last
}

// roomy is more than all the buffers between two ends: two pipes that a busy relay has enlarged, and its own.
const roomy = 3 * mib

// lotsOf are so many lines in a file.
func lotsOf(t *testing.T, size int) (path string, text []byte) {
	t.Helper()
	line := append(bytes.Replace(lineOf(1000), []byte(`"id":1,`), nil, 1), '\n') // a notification: nobody owes an answer
	text = bytes.Repeat(line, size/len(line))
	path = filepath.Join(t.TempDir(), "lots")
	noError(t, os.WriteFile(path, text, 0o600))
	return path, text
}

// A client that does not read stops the server's writes; when it reads, all of it comes.
func TestRelayHoldsTheServerBack(t *testing.T) {
	t.Parallel()
	for _, stdio := range stdios {
		for way, flags := range ways {
			t.Run(stdio+"/"+way, func(t *testing.T) {
				t.Parallel()
				file, text := lotsOf(t, 8*roomy)
				c := newClient(t, stdio, flags, "dd", "if="+file, "bs=4096", "status=none")
				c.s.waitRecord()
				testkit.Until(t, "a server", func() bool { return c.s.behind().Server.PID > 0 })
				server := c.s.behind().Server.PID
				if n := steady(t, func() int64 { return written(t, server) }); n == 0 || n > roomy {
					t.Errorf("the server has written %d bytes that nobody reads", n)
				}
				if got := c.readAll(); !bytes.Equal(got, text) {
					t.Errorf("got %s, want %s", sumOf(got), sumOf(text))
				}
				wantCode(t, c, 0)
			})
		}
	}
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		file, text := lotsOf(t, 8*roomy)
		c := newClient(t, "pipe", awakeFlags(), "/bin/sh", "-c", `cat "$0" >"$0.copy"; exec cat`, file)
		c.s.waitRecord()
		c.s.until("through", func() bool { st, err := os.Stat(file + ".copy"); return err == nil && st.Size() == int64(len(text)) })
	})
}

// written is how much a process has written in all (proc(5), wchar).
func written(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
	noError(t, err)
	_, rest, _ := strings.Cut(string(b), "wchar: ")
	n, err := strconv.ParseInt(strings.SplitN(rest, "\n", 2)[0], 10, 64)
	noError(t, err)
	return n
}

func wantCode(t *testing.T, c *client, code int) {
	t.Helper()
	if got := c.exitCode(); got != code {
		t.Errorf("exit %d, want %d", got, code)
	}
	c.s.gone()
}

// A server that does not read stops the client's writes; when it reads, all of it comes.
func TestRelayHoldsTheClientBack(t *testing.T) {
	t.Parallel()
	for _, stdio := range stdios {
		for way, flags := range ways {
			t.Run(stdio+"/"+way, func(t *testing.T) {
				t.Parallel()
				_, text := lotsOf(t, 8*roomy)
				gate := filepath.Join(t.TempDir(), "gate")
				noError(t, unix.Mkfifo(gate, 0o600))
				c := newClient(t, stdio, flags, "/bin/sh", "-c", `read x <"$0"; exec cat`, gate)
				var sent atomic.Int64
				go c.send(text, &sent)
				if n := steady(t, sent.Load); n == 0 || n > roomy {
					t.Errorf("the client has written %d bytes that nobody reads", n)
				}
				noError(t, os.WriteFile(gate, []byte("go\n"), 0))
				if got := c.readAll(); !bytes.Equal(got, text) {
					t.Errorf("got %s, want %s", sumOf(got), sumOf(text))
				}
				wantCode(t, c, 0)
			})
		}
	}
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		_, text := lotsOf(t, 8*roomy)
		c := newClient(t, "pipe", awakeFlags(), "/bin/sh", "-c", "cat >/dev/null")
		var sent atomic.Int64
		c.send(text, &sent)
		if n := sent.Load(); n != int64(len(text)) {
			t.Errorf("a server that reads got %d bytes", n)
		}
	})
}

// send writes in small pieces, counts them, and closes.
func (c *client) send(text []byte, sent *atomic.Int64) {
	for len(text) > 0 {
		n, err := c.in.Write(text[:min(len(text), 4*kib)])
		sent.Add(int64(n))
		if err != nil {
			return
		}
		text = text[n:]
	}
	_ = c.in.Close()
}

// The ends of the streams come in the order in which they were made.
func TestRelayKeepsTheOrderOfEnds(t *testing.T) {
	t.Parallel()
	for _, stdio := range stdios {
		for way, flags := range ways {
			t.Run(stdio+"/"+way+"/stdin first", func(t *testing.T) {
				t.Parallel()
				file, text := lotsOf(t, roomy)
				c := newClient(t, stdio, flags, "/bin/sh", "-c", `wc -c; cat "$0"; exit 5`, file)
				c.s.write64k(c)
				c.s.ok(c.in.Close())
				if got, want := c.readAll(), append([]byte("65536\n"), text...); !bytes.Equal(bytes.TrimLeft(got, " "), want) {
					t.Errorf("got %s, want %s", sumOf(got), sumOf(want))
				}
				wantCode(t, c, 5)
			})
			t.Run(stdio+"/"+way+"/stdout first", func(t *testing.T) {
				t.Parallel()
				kept := filepath.Join(t.TempDir(), "kept")
				c := newClient(t, stdio, flags, "/bin/sh", "-c", `echo hello; exec >&-; cat >"$0"; exit 6`, kept)
				c.awaitText("hello\n")
				c.s.write64k(c)
				c.s.ok(c.in.Close())
				if rest := c.readAll(); len(rest) > 0 {
					t.Errorf("after the end of stdout came %q", rest)
				}
				wantCode(t, c, 6)
				if st, err := os.Stat(kept); err != nil || st.Size() != 64*kib {
					t.Errorf("the server got %v of what was sent after it had closed stdout (%v)", st, err)
				}
			})
			t.Run(stdio+"/"+way+"/the server does not want its stdin", func(t *testing.T) {
				t.Parallel()
				gate := filepath.Join(t.TempDir(), "gate")
				noError(t, unix.Mkfifo(gate, 0o600))
				c := newClient(t, stdio, flags, "/bin/sh", "-c", `exec <&-; echo one; read x <"$0"; echo two; exit 7`, gate)
				c.awaitText("one\n")
				_, err := c.in.WriteString("[]\n")
				c.s.ok(err)
				noError(t, os.WriteFile(gate, []byte("go\n"), 0))
				c.awaitText("two\n")
				wantCode(t, c, 7)
			})
		}
	}
}

func (s *session) write64k(c *client) {
	s.t.Helper()
	_, err := c.in.Write(bytes.Repeat([]byte("0123456789abcde\n"), 4*kib))
	s.ok(err)
}

func (c *client) awaitText(want string) {
	c.s.t.Helper()
	got := make([]byte, len(want))
	_ = c.out.SetReadDeadline(time.Now().Add(testkit.Patience))
	if _, err := io.ReadFull(c.out, got); err != nil || string(got) != want {
		c.s.t.Fatalf("got %q, want %q (%v)", got, want, err)
	}
}

// nonblocking tells, by a copy, whether a description has O_NONBLOCK.
func nonblocking(t *testing.T, fd int) bool {
	t.Helper()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	noError(t, err)
	return flags&unix.O_NONBLOCK != 0
}

// The relay leaves the descriptions that it shares with the gateway as they are, and works with those that the gateway
// makes non-blocking.
func TestRelayOnNonBlockingStreams(t *testing.T) {
	t.Parallel()
	for _, stdio := range stdios {
		t.Run(stdio, func(t *testing.T) {
			t.Parallel()
			join := os.Pipe
			if stdio == "socketpair" {
				join = socketpair
			}
			theirIn, in, err := join()
			noError(t, err)
			out, theirOut, err := join()
			noError(t, err)
			copies := []int{dup(t, theirIn), dup(t, theirOut)}
			c := startOn(t, theirIn, theirOut, awakeFlags(), "/bin/sh", "-c", "echo up; exec cat")
			c.in, c.out = in, out
			t.Cleanup(func() { _, _ = in.Close(), out.Close() })
			c.awaitText("up\n")
			for i, fd := range copies {
				if nonblocking(t, fd) {
					t.Errorf("stream %d was made non-blocking", i)
				}
				noError(t, unix.SetNonblock(fd, true))
				if !nonblocking(t, fd) {
					t.Error("that cannot be seen")
				}
				noError(t, unix.Close(fd))
			}
			_, text := lotsOf(t, 8*roomy)
			var sent atomic.Int64
			go c.send(text, &sent)
			steady(t, sent.Load) // all buffers are full
			if got := c.readAll(); !bytes.Equal(got, text) {
				t.Errorf("got %s, want %s", sumOf(got), sumOf(text))
			}
			wantCode(t, c, 0)
		})
	}
}

// dup gives a copy that Go's own runtime does not know.
func dup(t *testing.T, f *os.File) int {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	noError(t, err)
	return fd
}

// Streams may be files.
func TestRelayBetweenFiles(t *testing.T) {
	t.Parallel()
	for way, flags := range ways {
		for _, mode := range []int{os.O_TRUNC, os.O_APPEND} {
			t.Run(fmt.Sprintf("%s/%d", way, mode), func(t *testing.T) {
				t.Parallel()
				path, text := lotsOf(t, roomy)
				in, err := os.Open(path)
				noError(t, err)
				out, err := os.OpenFile(path+".out", os.O_WRONLY|os.O_CREATE|mode, 0o600)
				noError(t, err)
				c := startOn(t, in, out, flags, "cat")
				wantCode(t, c, 0)
				if got, err := os.ReadFile(path + ".out"); err != nil || !bytes.Equal(got, text) {
					t.Errorf("got %s, want %s (%v)", sumOf(got), sumOf(text), err)
				}
			})
		}
	}
}
