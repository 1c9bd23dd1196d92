package share

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What one client has asked and the server has not taken does not come before another one's first call. Seen to take ten seconds
// behind 3,000 calls.
func TestClientsTakeTurns(t *testing.T) {
	h := newHost(t)
	stdin, stdout := pipeServer(t, h)
	must(t)(unix.FcntlInt(uintptr(h.server.Out.FD()), unix.F_SETPIPE_SZ, writtenAhead))
	many, one := connect(t, h), connect(t, h)
	h.takeHello(many)
	h.takeHello(one)
	for _, c := range []string{helloLine, readyLine} {
		hears(h, many, c)
		hears(h, one, c)
	}
	h.pass(time.Now())
	must(t)(unix.Write(stdout, []byte(welcomeLine+"\n")))
	h.turn(t)
	const calls = 3000
	for n := range calls {
		hears(h, many, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"many"}}`, n))
	}
	h.pass(time.Now())
	hears(h, one, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}`)
	var got strings.Builder
	buf := make([]byte, 1<<10)
	for h.server.size > 0 || must(t)(unix.IoctlGetInt(stdin, unix.TIOCINQ)) > 0 {
		n := must(t)(unix.Read(stdin, buf))
		got.Write(buf[:n])
		h.turn(t)
	}
	first, _, _ := strings.Cut(got.String(), `"one"`)
	before := strings.Count(first, `"many"`)
	if total := strings.Count(got.String(), `"many"`); before > 300 || total != calls {
		t.Errorf("%d of %d calls came before the first one of the other client", before, total)
	}
	if many.ahead != 0 || one.ahead != 0 {
		t.Errorf("%d and %d bytes are counted of nothing", many.ahead, one.ahead)
	}
}
