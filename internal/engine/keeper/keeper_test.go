package keeper

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// serving is a keeper in front of an engine, with its proxy.
func serving(t *testing.T, e *testkit.Engine) *Keeper {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	o := Options{URL: e.Listen(t), Session: session.NewID(), Limit: time.Second}
	k, err := Find(o)
	if err != nil || k == nil {
		t.Fatal(err)
	}
	if err := k.Open(); err != nil {
		t.Fatal(err)
	}
	var r session.Record
	k.Record(&r)
	k = Adopt(o, &r, k.Listener())
	k.Serve(map[string]string{engine.LabelSession: o.Session})
	t.Cleanup(k.proxy.Close)
	return k
}

// ask has a client of the session's make a request.
func (k *Keeper) ask(t *testing.T, request string) string {
	t.Helper()
	c, err := net.Dial("unix", k.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, request)
	answer, _ := io.ReadAll(c)
	return string(answer)
}

const create = "POST /containers/create HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"

// What the session has made goes, and nothing else, whatever the engine's clock says. Nobody but the session saw it made: to
// one who recovers it with that clock nothing is proven.
func TestRemovalOfWhatWasMade(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		e := &testkit.Engine{Have: map[string]*testkit.Object{"theirs": {Running: true}}}
		k := serving(t, e)
		for range 2 {
			if got := k.ask(t, create); !strings.HasPrefix(got, "HTTP/1.1 201 ") {
				t.Fatal(got)
			}
		}
		if wrong {
			e.Lock()
			for _, x := range e.Have {
				x.Created = x.Created.Add(time.Hour)
			}
			e.Unlock()
		}
		was := session.Record{Containers: session.Containers{Engine: k.endpoint.URL, Socket: k.socket, EngineUsed: true}}
		o := k.o
		o.Limit = 10 * time.Second
		if wrong {
			if r := Recover(o, &was).Close(false); r.Err == nil || r.Count != 0 || len(e.Left()) != 3 {
				t.Errorf("recovered with a wrong clock: %+v, left %v", r, e.Left())
			}
		}
		if r := k.Close(false); r.Err != nil || r.Count != 2 || len(e.Left()) != 1 {
			t.Errorf("wrong: %v: %+v, left %v", wrong, r, e.Left())
		}
		if _, err := os.Lstat(k.socket); err == nil {
			t.Error("the socket is left")
		}
	}
}

func TestRecovery(t *testing.T) {
	e := &testkit.Engine{}
	k := serving(t, e)
	k.ask(t, create)
	was := session.Record{Containers: session.Containers{Engine: k.endpoint.URL, Socket: k.socket}}
	if r := Recover(k.o, &was).Close(false); r.Err != nil || r.Count != 0 || len(e.Left()) != 1 {
		t.Errorf("of an engine that was not used: %+v, left %v", r, e.Left())
	}
	was.EngineUsed = true
	k.o.Limit = 10 * time.Second
	if r := Recover(k.o, &was).Close(false); r.Err != nil || r.Count != 1 || len(e.Left()) != 0 {
		t.Errorf("%+v, left %v", r, e.Left())
	}
	far, unnamed := session.Containers{Engine: "ssh://far", Socket: "/s"}, session.Containers{Engine: "unix:///e"}
	if Recover(k.o, &session.Record{Containers: far}) != nil || Recover(k.o, &session.Record{Containers: unnamed}) != nil {
		t.Error("there is something to recover without an engine or a socket")
	}
}

// A process that is kept reaches the engine by the socket's name.
func TestKeptProcessesReachTheEngine(t *testing.T) {
	e := &testkit.Engine{}
	k := serving(t, e)
	k.ask(t, create)
	if r := k.Close(true); r.Err != nil || len(e.Left()) != 0 {
		t.Errorf("%+v, left %v", r, e.Left())
	}
	if got := k.ask(t, create); !strings.HasPrefix(got, "HTTP/1.1 201 ") {
		t.Error(got)
	}
	if left := e.Left(); len(left) != 1 || left[0].Labels[engine.LabelSession] != "" {
		t.Errorf("left %v", left)
	}
}

// A create that the engine never answers keeps neither the others alive, nor the session.
func TestUnansweredCreate(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	e := &testkit.Engine{Takes: func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("name") == "slow" {
			close(asked)
			<-release
			return true
		}
		return false
	}}
	k := serving(t, e)
	k.ask(t, create)
	slow, err := net.Dial("unix", k.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_, _ = io.WriteString(slow, strings.Replace(create, "create", "create?name=slow", 1))
	<-asked
	defer close(release)
	began := time.Now()
	if r := k.Close(false); r.Err == nil || !strings.Contains(r.Err.Error(), errUnanswered.Error()) || r.Count != 1 {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > LongestRemoval(k.o.Limit)+testkit.Patience/4 {
		t.Errorf("it took %v", took)
	}
}

// A session inside of another one dials the engine itself: what it makes is not the outer one's.
func TestFindBehindAnotherSession(t *testing.T) {
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	dir, err := session.Open(os.Getuid(), runtime)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	outer := session.NewID()
	lease, err := dir.Take(outer)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	socket := filepath.Join(t.TempDir(), outer+".sock")
	inner := session.Containers{Engine: "unix:///real.sock", Socket: socket}
	if err := lease.Write(session.Record{Version: session.Version, ID: outer, UID: os.Getuid(), Containers: inner}); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"unix://" + socket: "unix:///real.sock", "unix:///other/" + outer + ".sock": "unix:///other/" + outer + ".sock", "unix:///x.sock": "unix:///x.sock",
	} {
		if k, err := Find(Options{URL: url}); err != nil || k.endpoint.URL != want {
			t.Errorf("%s: %s, %v", url, k.endpoint.URL, err)
		}
	}
}

// A client that tries again and again is warned of once.
func TestWarnings(t *testing.T) {
	var said bytes.Buffer
	k := &Keeper{o: Options{Log: zerolog.New(&said)}}
	for i := range 9 {
		k.warn(fmt.Errorf("odd %d", i/3))
	}
	if n := bytes.Count(said.Bytes(), []byte("\n")); n != 3 {
		t.Errorf("%d lines:\n%s", n, said.Bytes())
	}
}

// What is made is news, once, and the time of the last is told. After the end there are none.
func TestNews(t *testing.T) {
	k := serving(t, &testkit.Engine{})
	told := func() bool {
		return proc.Poll([]unix.PollFd{{Fd: int32(k.News()), Events: unix.POLLIN}}, 0) > 0
	}
	if k.ask(t, "GET /containers/json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); told() || !k.MadeAt().IsZero() {
		t.Error("there are news, and nothing was made")
	}
	before := time.Now()
	k.ask(t, create)
	if !told() || k.MadeAt().Before(before) || told() {
		t.Error("a create is not told of once")
	}
	k.Close(false)
	if fd := k.News(); fd >= 0 {
		t.Errorf("news from descriptor %d after the end", fd)
	}
}
