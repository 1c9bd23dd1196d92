package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
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

const where = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"where"}}`

func TestShareRoots(t *testing.T) {
	t.Parallel()
	s := share(t)
	noError(t, os.WriteFile(filepath.Join(s.Dir, "mode"), []byte("roots,slow"), 0o666))
	c := s.client()
	c.result(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, `"result":"first"`)
	for n := range 2 {
		now := fmt.Sprintf("roots %d", n)
		_ = unix.Kill(s.server(), unix.SIGKILL)
		var r reply
		testkit.Until(t, "a result of a new server", func() bool {
			r = c.result(where, fmt.Sprintf(`"result":%q`, now))
			return r.Error == nil
		})
		if !strings.Contains(string(r.Result), now) {
			t.Fatalf("restart %d: the call was judged by %s", n, r.Result)
		}
	}
	c.close()
}
