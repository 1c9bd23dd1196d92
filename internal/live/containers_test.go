package live

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

// startedAt is when the container theirs was started.
const startedAt = "2026-01-02T03:04:06Z"

// fakeEngine serves a list of containers and counts the questions. It says when theirs was started, and fails to say so of a.
func fakeEngine(t *testing.T) (url string, asked *atomic.Int32) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mt") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "e.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	asked = &atomic.Int32{}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/containers/theirs/json":
			fmt.Fprintf(w, `{"Id":"theirs","State":{"Running":true,"StartedAt":%q}}`, startedAt)
			return
		case "/containers/a/json":
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `[{"Id":"a","Names":["/na"],"Image":"x","State":"running"},{"Id":"theirs","State":"running"},{"Id":"b","State":"exited"}]`)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + socket, asked
}

// noted is a session whose journal holds notes.
func noted(t *testing.T, engine string, notes ...engine.Note) Session {
	t.Helper()
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	l := Session{dir: dir, Record: session.Record{ID: "00112233445566ff", UID: os.Getuid(), Engine: engine}}
	journal := l.dir.Journal(l.ID)
	defer journal.Close()
	for _, n := range notes {
		if err := journal.Note(n); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func made(id string) engine.Note {
	return engine.Note{Op: engine.OpCreated, Kind: engine.Container, ID: id, Request: "r" + id}
}

func TestAddContainers(t *testing.T) {
	url, asked := fakeEngine(t)
	all := []Session{
		noted(t, url, made("a"), made("b"), made("gone")),
		noted(t, url),
		noted(t, "unix:///nowhere", made("a"), made("b")),
		noted(t, "tcp://127.0.0.1:1", made("a")),
	}
	all[3].UID++
	AddContainers(all)
	if c := all[0].Containers; len(c) != 2 || c[0].ID != "a" || c[0].Name != "na" || c[0].State != "running" || c[0].Engine != url || all[0].countContainers() != "2" {
		t.Errorf("%+v", c)
	}
	if c := all[1].Containers; len(c) != 0 {
		t.Errorf("%+v", c)
	}
	for i, want := range map[int]string{2: "2?", 3: "1?"} {
		if c := all[i].Containers; len(c) == 0 || c[0].State != describe.UnknownState || all[i].countContainers() != want {
			t.Errorf("%+v, %s", c, all[i].countContainers())
		}
	}
	asked.Store(0)
	AddContainers(all[1:2])
	if asked.Load() > 0 {
		t.Error("the engine was asked for a session without containers")
	}
}

// Of the containers that a session only started, those are its own that still run from that start, or may do so.
func TestAddContainersStarted(t *testing.T) {
	url, _ := fakeEngine(t)
	started := func(id, at string) engine.Note { return engine.Note{Op: engine.OpStarted, ID: id, Started: at} }
	const before = "2026-01-02T03:04:05Z"
	all := []Session{
		noted(t, url, started("b", before)),
		noted(t, url, started("theirs", startedAt), started("b", startedAt)),
		noted(t, url, started("theirs", before), started("a", before)),
		noted(t, "unix:///nowhere", started("theirs", before)),
	}
	// On a busy machine the engine may answer too late to be believed.
	testkit.Until(t, "each has its own", func() bool {
		AddContainers(all)
		var have []string
		for i := range all {
			ids := ""
			for _, c := range all[i].Containers {
				ids += c.ID
			}
			have = append(have, ids)
		}
		return slices.Equal(have, []string{"", "theirs", "a", "theirs"})
	})
}
