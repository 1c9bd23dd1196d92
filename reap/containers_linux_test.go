package reap

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-tether/engine"
	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// fakeEngine is as much of an engine as a pass asks for.
type fakeEngine struct {
	url string

	mu     sync.Mutex
	have   map[string]map[string]string // labels by id
	stuck  bool                         // removes nothing
	filter bool                         // in front of it lets pass what is about containers
	calls  []string
	labels map[string]string // of its one image
}

func startFake(t *testing.T, ids ...string) *fakeEngine {
	t.Helper()
	e := &fakeEngine{have: map[string]map[string]string{}}
	for _, id := range ids {
		e.have[id] = map[string]string{engine.LabelRequest: "r" + id}
	}
	socket := filepath.Join(shortDir(t), "e.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e.url = "unix://" + socket
	server := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return e
}

// shortDir is a directory whose name leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mt") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (e *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, r.Method+" "+r.URL.Path)
	part := append(strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/"), "", "")
	id := part[1]
	_, there := e.have[id]
	switch {
	case e.filter && part[0] != "containers":
		http.Error(w, "Request forbidden by administrative rules.", http.StatusForbidden)
	case r.URL.Path == "/containers/json":
		all := []map[string]any{}
		for id, labels := range e.have {
			all = append(all, map[string]any{"Id": id, "Names": []string{"/n" + id}, "Image": "x", "ImageID": "i", "State": "running", "Created": 1, "Labels": labels})
		}
		_ = json.NewEncoder(w).Encode(all)
	case r.URL.Path == "/networks":
		fmt.Fprint(w, "[]")
	case part[0] == "images":
		_ = json.NewEncoder(w).Encode(map[string]any{"Config": map[string]any{"Labels": e.labels}})
	case part[0] != "containers" || !there:
		http.Error(w, `{"message":"no such thing"}`, http.StatusNotFound)
	case r.Method == http.MethodDelete && e.stuck:
		http.Error(w, `{"message":"will not"}`, http.StatusInternalServerError)
	case r.Method == http.MethodDelete:
		delete(e.have, id)
		w.WriteHeader(http.StatusNoContent)
	case part[2] == "json":
		fmt.Fprintf(w, `{"Id":%q,"Name":"/n","State":{"Running":true,"StartedAt":"2026-01-02T03:04:05.6Z"},"Config":{"Image":"x"}}`, id)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// deadSession writes a session with its record and journal, whose lease no process holds.
func deadSession(t *testing.T, host string, ids ...string) *storedSession {
	t.Helper()
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	lease, err := dir.Take(deadID)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	s := &storedSession{Dir: dir, Owner: os.Getuid(), Lease: true}
	s.Record = session.Record{Version: session.Version, ID: deadID, Host: here, UID: os.Getuid(), Engine: host}
	if err := lease.Write(s.Record); err != nil {
		t.Fatal(err)
	}
	journal := dir.Journal(deadID)
	defer journal.Close()
	for _, id := range ids {
		if err := journal.Note(engine.Note{Op: engine.OpCreated, Kind: engine.Container, ID: id, Request: "r" + id}); err != nil {
			t.Fatal(err)
		}
	}
	s.readLedger()
	return s
}

// looked is a host of which only the engines were read.
func looked(t *testing.T, reach Reach, sessions ...*storedSession) (h *host, warnings string) {
	t.Helper()
	h = boxes(t)
	h.Engines, h.UID = nil, os.Getuid()
	look := newEngineLook(h, reach)
	defer look.close()
	for _, s := range sessions {
		h.Sessions = append(h.Sessions, *s)
	}
	look.recorded()
	look.finish()
	for _, why := range h.Unknown {
		warnings += why + "\n"
	}
	return h, warnings
}

func quickly() teardown.Grace { return teardown.Grace{Kill: time.Second} }

func left(t *testing.T, s *storedSession) string {
	t.Helper()
	files, err := os.ReadDir(s.Dir.Name)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimPrefix(f.Name(), deadID))
	}
	return strings.Join(names, " ")
}

func TestEndOfRecordedContainers(t *testing.T) {
	e := startFake(t, "a", "b", "theirs")
	s := deadSession(t, e.url, "a", "b", "gone")
	h, warnings := looked(t, Reach{Recorded: true}, s)
	found := find(h, Rules{})
	if err := endFindings(found, false, quickly(), math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Result != "ended" || len(found[0].Containers) != 2 || found[0].Containers[0].Result != "removed" || warnings != "" {
		t.Errorf("%+v, %s", found, warnings)
	}
	if _, ok := e.have["theirs"]; !ok || len(e.have) != 1 {
		t.Errorf("left are %v", e.have)
	}
	if names := left(t, s); names != "" {
		t.Errorf("files left: %s", names)
	}
}

// A directory of records may be shared with another machine, and so may an engine. What the session has made there stays,
// also what it makes while this one is ended.
func TestEndSparesAnotherMachine(t *testing.T) {
	e := startFake(t, "a", "theirs", "late")
	made := time.Unix(1, 0).UTC().Format(time.RFC3339Nano)
	e.mu.Lock()
	for id, host := range map[string]proc.Host{"a": here, "theirs": {Boot: "another"}, "late": {Boot: "another"}} {
		l := e.have[id]
		l[engine.LabelSession], l[engine.LabelCreated], l[engine.LabelSupervisor], l[engine.LabelMachine] = deadID, made, gone(host), "another"
	}
	e.have["a"][engine.LabelMachine] = ourMachine
	s := deadSession(t, e.url, "a", "theirs")
	late := e.have["late"]
	delete(e.have, "late")
	e.mu.Unlock()
	h, _ := looked(t, Reach{Recorded: true}, s)
	h.Machine = ourMachine
	found := find(h, Rules{})
	e.mu.Lock()
	e.have["late"] = late
	e.mu.Unlock()
	if err := endFindings(found, false, quickly(), math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if found[0].Result != resultEnded || len(e.have) != 2 || e.have["a"] != nil {
		t.Errorf("%+v, left %v", found[0], e.have)
	}
}

// As long as a container is there, so is the record.
func TestEndOfContainersThatStay(t *testing.T) {
	e := startFake(t, "a")
	e.stuck = true
	s := deadSession(t, e.url, "a")
	h, _ := looked(t, Reach{Recorded: true}, s)
	found := find(h, Rules{})
	if err := endFindings(found, false, quickly(), math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if f := found[0]; f.Result != resultSurvived || f.Containers[0].Result != resultSurvived || !strings.Contains(strings.Join(f.Survivors, ";"), "will not") {
		t.Errorf("%+v", f)
	}
	if names := left(t, s); names != ".containers .json .lock" {
		t.Errorf("files left: %s", names)
	}
	e.mu.Lock()
	e.stuck = false
	e.mu.Unlock()
	h, _ = looked(t, Reach{Recorded: true}, s)
	found = find(h, Rules{})
	if err := endFindings(found, false, quickly(), math.MaxUint64); err != nil || found[0].Result != "ended" || left(t, s) != "" {
		t.Errorf("the next pass: %v, %+v", err, found[0])
	}
}

func TestEndWithoutEngine(t *testing.T) {
	nowhere := "unix://" + filepath.Join(t.TempDir(), "no.sock")
	for name, c := range map[string]struct {
		engine string
		ids    []string
		reach  Reach
		result string
	}{
		"down, with containers":           {nowhere, []string{"a"}, Reach{Recorded: true}, "failed"},
		"down, without":                   {nowhere, nil, Reach{Recorded: true}, "removed"},
		"not looked at, with containers":  {nowhere, []string{"a"}, Reach{None: true}, "failed"},
		"not looked at, without":          {nowhere, nil, Reach{None: true}, "removed"},
		"no engine":                       {"", nil, Reach{Recorded: true}, "removed"},
		"an engine that means nothing":    {"x://y", []string{"a"}, Reach{Recorded: true}, "failed"},
		"an engine that meant nothing":    {"x://y", nil, Reach{Recorded: true}, "removed"},
		"down when it comes to be looked": {nowhere, []string{"a"}, Reach{Recorded: true}, "failed"},
	} {
		s := deadSession(t, c.engine, c.ids...)
		h, _ := looked(t, c.reach, s)
		found := find(h, Rules{})
		if err := endFindings(found, false, quickly(), math.MaxUint64); err != nil {
			t.Fatal(err)
		}
		if found[0].Result != c.result || (left(t, s) == "") != (c.result == "removed") {
			t.Errorf("%s: %s %q, files %q", name, found[0].Result, found[0].Survivors, left(t, s))
		}
	}
}

// A filter in front of an engine may forbid all that is not about containers. That is no failure of the engine.
func TestEndBehindAFilter(t *testing.T) {
	e := startFake(t, "a", "theirs")
	e.mu.Lock()
	e.filter = true
	e.mu.Unlock()
	s := deadSession(t, e.url, "a")
	h, warnings := looked(t, Reach{Recorded: true}, s)
	found := find(h, Rules{})
	if err := endFindings(found, false, quickly(), math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Result != "ended" || e.have["a"] != nil || e.have["theirs"] == nil || warnings != "" {
		t.Errorf("%+v, left %v, %s", found, e.have, warnings)
	}
}

// An engine goes away between the look and the end.
func TestEndOfEngineThatGoes(t *testing.T) {
	e := startFake(t, "a")
	s := deadSession(t, e.url, "a")
	h, _ := looked(t, Reach{Recorded: true}, s)
	found := find(h, Rules{})
	if err := os.Remove(strings.TrimPrefix(e.url, "unix://")); err != nil {
		t.Fatal(err)
	}
	if err := endFindings(found, false, quickly(), math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if found[0].Result != resultSurvived || left(t, s) == "" {
		t.Errorf("%s %q, files %q", found[0].Result, found[0].Survivors, left(t, s))
	}
}

// An engine that is reached by another name, or through the proxies of sessions, is the same engine.
func TestEnginesAreAskedOnce(t *testing.T) {
	e := startFake(t, "a")
	socket := strings.TrimPrefix(e.url, "unix://")
	alias := filepath.Join(filepath.Dir(socket), "alias.sock")
	if err := os.Symlink(socket, alias); err != nil {
		t.Fatal(err)
	}
	outer, inner, lost := deadSession(t, "unix://"+alias), deadSession(t, ""), deadSession(t, "")
	outer.Socket = "/nowhere/0123456789abcdef.sock"
	inner.Record.Engine = "unix://" + outer.Socket
	lost.Record.Engine = "unix:///nowhere/1123456789abcdef.sock"
	h, warnings := looked(t, Reach{Engine: e.url}, outer, inner, lost)
	if len(h.Engines) != 1 || h.Engines[0].Err != nil || len(h.Engines[0].Have) != 1 || warnings != "" {
		t.Fatalf("%+v %s", h.Engines, warnings)
	}
	for i, s := range h.Sessions {
		if s.At != h.Engines[0] {
			t.Errorf("session %d: %+v", i, s.At)
		}
	}
	lists := 0
	for _, c := range e.calls {
		if c == "GET /containers/json" {
			lists++
		}
	}
	if lists != 1 {
		t.Errorf("asked %d times: %q", lists, e.calls)
	}
}

// A pass that is called from within a session looks at the engine behind the session's proxy.
func TestFirstEngineIsAProxy(t *testing.T) {
	e := startFake(t, "a")
	living := deadSession(t, e.url)
	living.Held, living.Socket = true, "/nowhere/0123456789abcdef.sock"
	h, warnings := looked(t, Reach{Engine: "unix://" + living.Socket}, living)
	if len(h.Engines) != 1 || h.Engines[0].URL != e.url || len(h.Engines[0].Have) != 1 || warnings != "" {
		t.Errorf("%+v %s", h.Engines[0], warnings)
	}
}

// Proxies that name each other lead nowhere, and not for ever.
func TestProxiesInACircle(t *testing.T) {
	a, b := deadSession(t, "unix:///nowhere/b123456789abcdef.sock", "x"), deadSession(t, "unix:///nowhere/a123456789abcdef.sock")
	a.Socket, b.Socket = "/nowhere/a123456789abcdef.sock", "/nowhere/b123456789abcdef.sock"
	h, warnings := looked(t, Reach{Recorded: true}, a, b)
	if h.Sessions[0].At.Err == nil || warnings == "" {
		t.Errorf("%+v, %q", h.Sessions[0].At, warnings)
	}
}

// An engine that the session reached through the podman command is reached through it again. A record of an earlier version
// says nothing of that.
func TestEngineBehindPodman(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // neither command is there to be run
	s, old := deadSession(t, "ssh://far", "a"), deadSession(t, "ssh://far", "a")
	s.EnginePodman = true
	h, warnings := looked(t, Reach{Recorded: true}, old, s, s)
	if len(h.Engines) != 2 || h.Sessions[0].At.Helper() != "docker" || h.Sessions[1].At.Helper() != "podman" || h.Sessions[2].At != h.Sessions[1].At {
		t.Errorf("%+v: %s", h.Engines, warnings)
	}
	if strings.Count(warnings, "run docker for ssh://far") != 1 || strings.Count(warnings, "run podman for ssh://far") != 1 {
		t.Error(warnings)
	}
}

// Root follows the records of others to sockets only: for the rest it would run a command with what they say.
func TestEnginesOfOthers(t *testing.T) {
	s := deadSession(t, "tcp://127.0.0.1:1", "a")
	s.Owner = os.Getuid() + 1
	h, _ := looked(t, Reach{Recorded: true}, s)
	if !errors.Is(h.Sessions[0].At.Err, errNotSocket) || len(h.Engines) != 0 {
		t.Errorf("%+v, %+v", h.Sessions[0].At, h.Engines)
	}
	var many []*storedSession
	for n := range 2 * maxEngines {
		s := deadSession(t, fmt.Sprintf("unix:///nowhere/%d.sock", n), "a")
		s.Owner = os.Getuid() + 1
		many = append(many, s)
	}
	h, _ = looked(t, Reach{Recorded: true}, many...)
	asked := 0
	for _, e := range h.Engines {
		if !errors.Is(e.Err, errTooMany) {
			asked++
		}
	}
	if asked != maxEngines {
		t.Errorf("%d engines were asked", asked)
	}
}

// No engine is asked in vain, and there is no warning about an engine that was not named.
func TestEnginesNotAsked(t *testing.T) {
	e := startFake(t, "a")
	living := deadSession(t, e.url, "a")
	living.Held = true
	unsure := deadSession(t, e.url, "a")
	unsure.Held, unsure.Lease = true, false
	for _, reach := range []Reach{{Recorded: true}, {None: true, Engine: e.url}} {
		h, warnings := looked(t, reach, living, unsure)
		if len(h.Engines) != 0 || len(e.calls) != 0 || warnings != "" {
			t.Errorf("%+v: %v, %q, %s", reach, h.Engines, e.calls, warnings)
		}
	}
	if _, warnings := looked(t, Reach{Engine: "unix:///nowhere"}); !strings.Contains(warnings, "unix:///nowhere") {
		t.Errorf("an engine that was named: %q", warnings)
	}
	if _, warnings := looked(t, Reach{Engine: "x://y"}); warnings == "" {
		t.Error("an engine that means nothing")
	}
}
