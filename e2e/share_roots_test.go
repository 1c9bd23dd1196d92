package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// The roots of the one client of a shared server bound what the next server may do, too.

// result makes a call and returns what the server says. It answers what the server asks meanwhile: "" for no answer.
func (c *sharer) result(call, roots string) reply {
	c.s.t.Helper()
	c.id++
	c.write(fmt.Sprintf(call, c.id))
	for {
		line := c.line()
		var m struct {
			reply
			ID json.RawMessage
		}
		switch {
		case line == "":
			c.s.t.Fatal("the session ended instead of answering")
		case json.Unmarshal([]byte(line), &m) != nil:
		case m.Method == "roots/list" && roots != "":
			c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, roots))
		case m.Method == "" && string(m.ID) == fmt.Sprint(c.id):
			return m.reply
		}
	}
}

// asked reads up to a request of the server, and returns its id.
func (c *sharer) asked(method string) json.RawMessage {
	c.s.t.Helper()
	for {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		line := c.line()
		if line == "" {
			c.s.t.Fatalf("the session ended instead of asking %s", method)
		}
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == method {
			return m.ID
		}
	}
}

// restarted kills the server, and returns when that has been seen: calls get errors no more.
func (c *sharer) restarted(server func() int, call, roots string) reply {
	c.s.t.Helper()
	_ = unix.Kill(server(), unix.SIGKILL)
	var r reply
	testkit.Until(c.s.t, "a result of a new server", func() bool {
		r = c.result(call, roots)
		return r.Error == nil
	})
	return r
}

const where = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"where"}}`

// shareRoots is a shared server that asks for roots and takes its time over them, with its one client.
func shareRoots(t *testing.T, flags ...string) (*sharing, *sharer) {
	t.Helper()
	s := share(t, flags...)
	if err := os.WriteFile(filepath.Join(s.dir, "mode"), []byte("roots,slow"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := s.client()
	c.result(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, `"result":"first"`)
	return s, c
}

func TestShareRoots(t *testing.T) {
	t.Parallel()
	s, c := shareRoots(t)
	for n := range 3 {
		now := fmt.Sprintf("roots %d", n)
		if r := c.restarted(s.server, where, fmt.Sprintf(`"result":%q`, now)); !strings.Contains(string(r.Result), now) {
			t.Fatalf("restart %d: the call was judged by %s", n, r.Result)
		}
	}
	c.close()
}

// A client that does not answer, or refuses now, gets an error for its call. Once it answers again, it gets results.
func TestShareWithoutRoots(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct{ roots, want string }{
		"no answer": {"", "--wake-timeout"},
		"refused":   {`"error":{"code":-32603,"message":"no"}`, "refuses its roots"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := shareRoots(t, "--wake-timeout=2s")
			_ = unix.Kill(s.server(), unix.SIGKILL)
			testkit.Until(t, "an error for want of roots", func() bool {
				r := c.result(where, answer.roots)
				if r.Error == nil {
					t.Fatalf("the call was judged by %s", r.Result)
				}
				return strings.Contains(r.Error.Message, answer.want)
			})
			testkit.Until(t, "a result once there are roots", func() bool {
				r := c.result(where, `"result":"last"`)
				if r.Error == nil && !strings.Contains(string(r.Result), "last") {
					t.Fatalf("the call was judged by %s", r.Result)
				}
				return r.Error == nil
			})
			c.close()
		})
	}
}

// The official server for files serves its client's roots, and not what is on its command line, after each restart.
func TestShareRealRoots(t *testing.T) {
	t.Parallel()
	needSDK(t)
	s := share(t)
	program, err := filepath.Abs(filepath.Join("npm", filesystemJS))
	noError(t, err)
	inside, outside := filepath.Join(s.dir, "inside"), filepath.Join(s.dir, "outside")
	for _, d := range []string{inside, outside} {
		noError(t, os.Mkdir(d, 0o777))
		noError(t, os.WriteFile(filepath.Join(d, "file"), []byte("content of "+d), 0o666))
	}
	s.command = append(slices.Clip(s.command[:4]), "node", program, outside)
	roots := fmt.Sprintf(`"result":{"roots":[{"uri":"file://%s"}]}`, inside)
	read := func(dir string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%%d,"method":"tools/call","params":{"name":"read_text_file","arguments":{"path":%q}}}`, filepath.Join(dir, "file"))
	}
	c := s.client()
	c.result(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, roots)
	testkit.Until(t, "the roots are in use", func() bool {
		return strings.Contains(string(c.result(read(inside), roots).Result), "content of")
	})
	server := func() int { return s.one("^node\x00") }
	for n := range rounds(20) {
		if r := c.restarted(server, read(outside), roots); !strings.Contains(string(r.Result), "Access denied") {
			t.Errorf("restart %d: %s", n, r.Result)
		}
		if r := c.result(read(inside), roots); !strings.Contains(string(r.Result), "content of") {
			t.Errorf("restart %d: %s %+v", n, r.Result, r.Error)
		}
	}
	c.close()
}

// A server that works with the roots of a session serves no other one, and not that session either once it has left. So it ends
// with the session, however long servers linger. Seen to leave a server behind with each nap.
func TestShareRootsHibernate(t *testing.T) {
	t.Parallel()
	s := share(t, "--hibernate=300ms")
	noError(t, os.WriteFile(filepath.Join(s.dir, "mode"), []byte("roots"), 0o666))
	c := s.client()
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":"roots"}`, c.asked("roots/list")))
	for n := range 3 {
		if r := c.result(where, `"result":"roots"`); !strings.Contains(string(r.Result), "roots") {
			t.Fatalf("call %d was judged by %s, %+v", n, r.Result, r.Error)
		}
		s.asleep(c)
		testkit.Until(t, "no server is left", func() bool { return len(s.with("^"+fixture+"\x00")) == 0 })
	}
	c.close()
	s.wantGone()
}
