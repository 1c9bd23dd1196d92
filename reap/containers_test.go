package reap

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// noon is when the passes of these tests begin: ten seconds after boot, by the tables of rules_test.go.
var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// boxes is a machine with one engine that has the given containers.
func boxes(t *testing.T, all ...engine.Object) *machine {
	t.Helper()
	h := table(t, "10 1 5 node s")
	h.Began, h.Machine = noon, ourMachine
	h.Engines = []*knownEngine{{
		Endpoint: engine.Endpoint{URL: "unix:///e", Socket: "/e"}, Have: all,
	}}
	return h
}

func gone(host proc.Host) string {
	return proc.GlobalID{ID: proc.ID{PID: 99_998, Start: 1}, Host: host}.String()
}

// box is a container of a session whose supervisor is dead, made a second before the pass; more are labels as "name=value".
func box(id, session string, more ...string) engine.Object {
	i := engine.Object{Kind: engine.Container, ID: id, Name: "n" + id, Image: "x", State: "running", Created: noon.Add(-time.Second)}
	if session != "" {
		i.Labels = map[string]string{
			engine.LabelSession: session, engine.LabelSupervisor: gone(here), engine.LabelMachine: ourMachine,
			engine.LabelCreated: i.Created.Format(time.RFC3339Nano),
		}
	}
	for _, m := range more {
		name, value, _ := strings.Cut(m, "=")
		i.Labels["mcp-tether."+name] = value
	}
	return i
}

// fates lists what a pass says of containers: "class:id", with "!" for those that it would end.
func fates(h *machine, r Rules) string {
	var out []string
	for _, f := range find(h, r) {
		for _, c := range f.Containers {
			fate := string(f.Class) + ":" + c.ID
			if _, ok := containersStruck(f)[c.ID]; ok && f.proven(false) {
				fate += "!"
			}
			out = append(out, fate)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

const otherID = "ffeeddccbbaa9988"

func TestLabelledContainers(t *testing.T) {
	otherBoot, otherNS := proc.Host{Boot: "old", PIDNS: here.PIDNS}, proc.Host{Boot: here.Boot, PIDNS: 1}
	alive := proc.GlobalID{ID: proc.ID{PID: 10, Start: 5}, Host: here}.String()
	before := "created=" + noon.Add(-time.Hour).Format(time.RFC3339Nano)
	for name, c := range map[string]struct {
		box  engine.Object
		want string
	}{
		"dead":                        {box("a", otherID), "container:a!"},
		"dead, and kept":              {box("a", otherID, "keep=1"), ""},
		"another machine, and kept":   {box("a", otherID, "supervisor="+gone(otherBoot), "machine=x", before, "keep=1"), ""},
		"no label":                    {box("a", ""), ""},
		"living supervisor":           {box("a", otherID, "supervisor="+alive), ""},
		"anchor of another namespace": {box("a", otherID, "anchor="+gone(otherNS)), "suspect:a"},
		"a clone":                     {box("a", otherID, "supervisor="+gone(otherBoot)), "suspect:a"},
		"made at no time":             {box("a", otherID, "created="), "suspect:a"},
		"made at another time":        {box("a", otherID, before), "suspect:a"},
	} {
		if got := fates(boxes(t, c.box), Rules{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLabelledContainersOfTheLiving(t *testing.T) {
	h := boxes(t, box("a", otherID), box("b", deadID))
	h.dead(0).Held = true
	if got := fates(h, Rules{}); got != "container:a!" {
		t.Errorf("got %q", got)
	}
	h = boxes(t, box("a", otherID), box("b", deadID))
	h.Lives = func(proc.ID) proc.Life { return proc.Unknown }
	if got := fates(h, Rules{}); got != "suspect:a suspect:b" {
		t.Errorf("supervisor hidden: got %q", got)
	}
	h = boxes(t, box("a", otherID, "anchor="+proc.GlobalID{ID: proc.ID{PID: 99_997, Start: 1}, Host: here}.String()))
	h.Lives = func(id proc.ID) proc.Life { return map[int]proc.Life{99_998: proc.Unknown, 99_997: proc.Dead}[id.PID] }
	if got := fates(h, Rules{}); got != "suspect:a" {
		t.Errorf("supervisor hidden, anchor dead: got %q", got)
	}
}

// A pass for one session is about the containers of that session alone.
func TestContainersOfOneSession(t *testing.T) {
	h := func() *machine {
		return boxes(t, box("a", otherID), box("b", deadID), box("c", deadID, "supervisor=x"))
	}
	if got := fates(h(), Rules{Session: deadID}); got != "suspect:b suspect:c" {
		t.Errorf("one session: got %q", got)
	}
}

// A record without processes is as old as its eldest container, or else as its session.
func TestRecordAge(t *testing.T) {
	for name, c := range map[string]struct {
		all []engine.Object
		age time.Duration
	}{
		"of a container":    {[]engine.Object{box("a", deadID)}, time.Second},
		"with nothing left": {nil, 2 * time.Hour},
	} {
		h, s := used(t, c.all...)
		s.Started = h.Began.Add(-2 * time.Hour)
		found := find(h, Rules{})
		if len(found) != 1 {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		f := found[0]
		f.stored = s
		if f.describe(h); f.AgeSeconds != int64(c.age.Seconds()) || f.User == "" {
			t.Errorf("%s: %d s, user %q", name, f.AgeSeconds, f.User)
		}
	}
}

// used is a machine with the record of a dead session that has used its engine.
func used(t *testing.T, all ...engine.Object) (*machine, *storedSession) {
	t.Helper()
	h := boxes(t, all...)
	s := h.dead(0)
	s.At, s.EngineUsed = h.Engines[0], true
	return h, s
}

func TestRecordedContainers(t *testing.T) {
	alive := "supervisor=" + proc.GlobalID{ID: proc.ID{PID: 10, Start: 5}, Host: here}.String()
	for name, c := range map[string]struct {
		all  []engine.Object
		more func(*machine, *storedSession)
		want string
	}{
		"its own":                     {all: []engine.Object{box("a", deadID)}, want: "record:a!"},
		"without label":               {all: []engine.Object{box("a", "")}},
		"kept":                        {all: []engine.Object{box("a", deadID, "keep=1"), box("b", deadID)}, want: "record:b!"},
		"and a copy":                  {all: []engine.Object{box("a", deadID), box("b", deadID, "created="+noon.Add(-time.Hour).Format(time.RFC3339Nano))}, want: "record:a! suspect:b"},
		"of a living inner":           {all: []engine.Object{box("a", otherID, alive), box("b", deadID)}, want: "record:b!"},
		"of another boot":             {all: []engine.Object{box("a", deadID)}, more: func(_ *machine, s *storedSession) { s.Host.Boot = "old" }, want: "record:a!"},
		"of another boot and machine": {all: []engine.Object{box("a", deadID, "machine=x", "supervisor="+gone(proc.Host{Boot: "old"}))}, more: func(_ *machine, s *storedSession) { s.Host.Boot = "old" }, want: "suspect:a"},
		"of a living supervisor":      {all: []engine.Object{box("a", deadID, alive)}, want: "suspect:a"},
		"of an engine not used":       {all: []engine.Object{box("a", deadID)}, more: func(_ *machine, s *storedSession) { s.At = nil }, want: "container:a!"},
		"recorded elsewhere":          {all: []engine.Object{box("a", deadID)}, more: func(_ *machine, s *storedSession) { s.At = &knownEngine{} }, want: "container:a!"},
	} {
		h, s := used(t, c.all...)
		if c.more != nil {
			c.more(h, s)
		}
		if got := fates(h, Rules{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The record of a session stays as long as its containers could not be listed.
func TestEngineThatDoesNotAnswer(t *testing.T) {
	down := &knownEngine{Endpoint: engine.Endpoint{URL: "unix:///down"}, Err: errors.New("no answer")}
	for name, isUsed := range map[string]bool{"used": true, "not used": false} {
		h, s := used(t)
		s.At = nil
		if isUsed {
			s.At = down
		}
		f := find(h, Rules{})[0]
		if (f.unseen != "") != isUsed || f.engine != nil || strings.Contains(strings.Join(f.Evidence, ";"), "no answer") != isUsed || (f.Advice != "") != isUsed {
			t.Errorf("%s: %q, %q", name, f.unseen, f.Evidence)
		}
	}
}

// fakeEngine is an engine that has containers which run.
type fakeEngine struct {
	testkit.Engine
	url string
}

func startFake(t *testing.T, ids ...string) *fakeEngine {
	t.Helper()
	e := &fakeEngine{Engine: testkit.Engine{Have: map[string]*testkit.Object{}}}
	for _, id := range ids {
		e.Have[id] = &testkit.Object{Name: "n" + id, Running: true, Created: time.Unix(1, 0), Labels: labelsOf(id)}
	}
	e.url = e.Listen(t)
	return e
}

// labelsOf are those of what the dead session has made; of "theirs" there are none.
func labelsOf(id string) map[string]string {
	if id == "theirs" {
		return nil
	}
	at := time.Unix(1, 0).UTC().Format(time.RFC3339Nano)
	return map[string]string{engine.LabelSession: deadID, engine.LabelSupervisor: gone(here), engine.LabelCreated: at}
}

// refusal is an engine's answer to what is refused.
func refusal(refused func(r *http.Request) bool, code int, text string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		no := refused(r)
		if no {
			http.Error(w, text, code)
		}
		return no
	}
}

// deadSession writes the record of a session, whose lease no process holds.
func deadSession(t *testing.T, host string, isUsed bool) *storedSession {
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
	s := &storedSession{Stored: session.Stored{Dir: dir}}
	s.Record = session.Record{Version: session.Version, ID: deadID, Host: here, UID: os.Getuid(), Containers: session.Containers{Engine: host, EngineUsed: isUsed}}
	if err := lease.Write(s.Record); err != nil {
		t.Fatal(err)
	}
	return s
}

// scanned is a machine of which only the engines were read.
func scanned(t *testing.T, which Engines, sessions ...*storedSession) (h *machine, warnings string) {
	t.Helper()
	h = boxes(t)
	h.Engines, h.UID = nil, os.Getuid()
	listing := newEngineListing(h, which)
	for _, s := range sessions {
		h.Sessions = append(h.Sessions, *s)
	}
	listing.recorded()
	listing.finish()
	for _, why := range h.Unknown {
		warnings += why + "\n"
	}
	return h, warnings
}

// reaped is what a pass over recorded sessions finds and ends.
func reaped(t *testing.T, grace teardown.Grace, which Engines, sessions ...*storedSession) []Finding {
	t.Helper()
	h, _ := scanned(t, which, sessions...)
	found := find(h, Rules{})
	if err := endFindings(found, false, grace, math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	return found
}

func quickly() teardown.Grace { return teardown.Grace{Kill: time.Second} }

// patiently is for where nothing withstands: an engine has all the time that it needs.
func patiently() teardown.Grace { return teardown.Grace{Kill: testkit.Patience} }

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
	s := deadSession(t, e.url, true)
	found := reaped(t, patiently(), Engines{OnlyRecorded: true}, s)
	if len(found) != 1 || found[0].Result != "ended" || len(found[0].Containers) != 2 || found[0].Containers[0].Result != "removed" {
		t.Errorf("%+v", found)
	}
	if _, ok := e.Have["theirs"]; !ok || len(e.Have) != 1 {
		t.Errorf("left are %v", e.Have)
	}
	if names := left(t, s); names != "" {
		t.Errorf("files left: %s", names)
	}
}

// Where the engine's clock is wrong, nothing is proven, and the containers are reported.
func TestEndWhereTheEnginesClockIsWrong(t *testing.T) {
	e := startFake(t, "a")
	e.Have["a"].Created = time.Unix(100, 0)
	s := deadSession(t, e.url, true)
	found := reaped(t, patiently(), Engines{OnlyRecorded: true}, s)
	if len(e.Left()) != 1 || len(found) != 2 || found[0].Result != resultRemoved && found[1].Result != resultRemoved {
		t.Errorf("%+v, left %v", found, e.Left())
	}
}

// As long as a container is there, so is the record.
func TestEndOfContainersThatStay(t *testing.T) {
	e := startFake(t, "a")
	e.Takes = refusal(func(r *http.Request) bool { return r.Method == http.MethodDelete }, http.StatusInternalServerError, `{"message":"will not"}`)
	s := deadSession(t, e.url, true)
	found := reaped(t, teardown.Grace{Kill: 5 * time.Second}, Engines{OnlyRecorded: true}, s)
	if f := found[0]; f.Result != resultSurvived || f.Containers[0].Result != resultSurvived || !strings.Contains(strings.Join(f.Survivors, ";"), "will not") {
		t.Errorf("%+v", f)
	}
	if names := left(t, s); names != ".json" {
		t.Errorf("files left: %s", names)
	}
	e.Lock()
	e.Takes = nil
	e.Unlock()
	if found = reaped(t, patiently(), Engines{OnlyRecorded: true}, s); found[0].Result != "ended" || left(t, s) != "" {
		t.Errorf("the next pass: %+v", found[0])
	}
}

func TestEndWithoutEngine(t *testing.T) {
	nowhere := "unix://" + filepath.Join(t.TempDir(), "no.sock")
	for name, c := range map[string]struct {
		engine string
		used   bool
		which  Engines
		result string
	}{
		"down, and used":               {engine: nowhere, used: true, which: Engines{OnlyRecorded: true}, result: "failed"},
		"down":                         {engine: nowhere, which: Engines{OnlyRecorded: true}, result: "removed"},
		"not looked at, and used":      {engine: nowhere, used: true, which: Engines{None: true}, result: "failed"},
		"not looked at":                {engine: nowhere, which: Engines{None: true}, result: "removed"},
		"no engine":                    {which: Engines{OnlyRecorded: true}, result: "removed"},
		"an engine that means nothing": {engine: "x://y", used: true, which: Engines{OnlyRecorded: true}, result: "failed"},
		"an engine that meant nothing": {engine: "x://y", which: Engines{OnlyRecorded: true}, result: "removed"},
		"an engine out of reach now":   {engine: "ssh://far", used: true, which: Engines{OnlyRecorded: true}, result: "failed"},
	} {
		s := deadSession(t, c.engine, c.used)
		found := reaped(t, quickly(), c.which, s)
		if found[0].Result != c.result || (left(t, s) == "") != (c.result == "removed") {
			t.Errorf("%s: %s %q, files %q", name, found[0].Result, found[0].Survivors, left(t, s))
		}
	}
}

// An engine goes away between the scan and the end.
func TestEndOfEngineThatGoes(t *testing.T) {
	e := startFake(t, "a")
	s := deadSession(t, e.url, true)
	h, _ := scanned(t, Engines{OnlyRecorded: true}, s)
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

// One engine is asked once, and what it has is reported once, also if it has two names.
func TestEnginesAreAskedOnce(t *testing.T) {
	e := startFake(t, "a")
	socket := strings.TrimPrefix(e.url, "unix://")
	alias := filepath.Join(filepath.Dir(socket), "alias.sock")
	if err := os.Symlink(socket, alias); err != nil {
		t.Fatal(err)
	}
	h, warnings := scanned(t, Engines{URL: e.url}, deadSession(t, e.url, true))
	if lists := e.Asked("/containers/json"); len(lists) != 1 || warnings != "" {
		t.Errorf("asked %q: %s", lists, warnings)
	}
	if got := fates(h, Rules{}); got != "record:a!" {
		t.Errorf("by one name: %s", got)
	}
	h, _ = scanned(t, Engines{URL: "unix://" + alias}, deadSession(t, e.url, true))
	if got := fates(h, Rules{}); got != "record:a!" {
		t.Errorf("by two names: %s", got)
	}
}

// Records may name any number of engines.
func TestManyEngines(t *testing.T) {
	var many []*storedSession
	for n := range 2 * proc.MaxEngines {
		many = append(many, deadSession(t, fmt.Sprintf("unix:///nowhere/%d.sock", n), true))
	}
	h, _ := scanned(t, Engines{OnlyRecorded: true}, many...)
	asked := 0
	for _, e := range h.Engines {
		if !errors.Is(e.Err, errTooMany) {
			asked++
		}
	}
	if asked != proc.MaxEngines {
		t.Errorf("%d engines were asked", asked)
	}
}

// No engine is asked in vain, and there is no warning about an engine that was not named.
func TestEnginesNotAsked(t *testing.T) {
	e := startFake(t, "a")
	living := deadSession(t, e.url, true)
	living.Held = true
	unsure := deadSession(t, e.url, true)
	unsure.Held, unsure.Unread = true, errors.New("not known")
	for _, which := range []Engines{{OnlyRecorded: true}, {None: true, URL: e.url}} {
		h, warnings := scanned(t, which, living, unsure)
		if len(h.Engines) != 0 || len(e.Seen) != 0 || warnings != "" {
			t.Errorf("%+v: %v, %q, %s", which, h.Engines, e.Seen, warnings)
		}
	}
	if _, warnings := scanned(t, Engines{URL: "unix:///nowhere"}); !strings.Contains(warnings, "unix:///nowhere") {
		t.Errorf("an engine that was named: %q", warnings)
	}
	t.Setenv("DOCKER_HOST", "ssh://far")
	if _, warnings := scanned(t, Engines{}); warnings != "" {
		t.Errorf("an engine in which no session has a proxy: %q", warnings)
	}
	if _, warnings := scanned(t, Engines{URL: "ssh://far"}); !strings.Contains(warnings, "ssh://far") {
		t.Errorf("an engine that was named, and is out of reach: %q", warnings)
	}
	if _, warnings := scanned(t, Engines{URL: "x://y"}); warnings == "" {
		t.Error("an engine that means nothing")
	}
}
