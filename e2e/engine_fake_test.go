package e2e

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// fakeEngine is an engine that may be gone for a while.
type fakeEngine struct {
	testkit.Engine
	t      *testing.T
	host   string
	server *http.Server
}

func newFake(t *testing.T, takes func(w http.ResponseWriter, r *http.Request) bool) *fakeEngine {
	t.Helper()
	l, host := listenUnix(t)
	f := &fakeEngine{Engine: testkit.Engine{Takes: takes}, t: t, host: host}
	f.serve(l)
	t.Cleanup(f.die)
	return f
}

func (f *fakeEngine) serve(l net.Listener) {
	s := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	f.server = s
	go func() { _ = s.Serve(l) }()
}

// die closes everything at once.
func (f *fakeEngine) die() { _ = f.server.Close() }

// comeBack listens again, where it did before.
func (f *fakeEngine) comeBack() {
	f.t.Helper()
	path := strings.TrimPrefix(f.host, "unix://")
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.serve(l)
}

// bridge copies between its clients and the engine, with half-closes.
func (f *fakeEngine) bridge(l net.Listener) {
	f.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.bridgeOne(c)
		}
	}()
}

func (f *fakeEngine) bridgeOne(c net.Conn) {
	defer c.Close()
	up, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: strings.TrimPrefix(f.host, "unix://"), Net: "unix"})
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.CloseWrite()
	}()
	_, _ = io.Copy(c, up)
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func overTCP(t *testing.T, f *fakeEngine) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	f.bridge(l)
	return []string{"DOCKER_HOST=tcp://" + l.Addr().String()}
}
