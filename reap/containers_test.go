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

	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
	"mcp-tether/internal/testkit"
)

// noon is when the passes of these tests begin: ten seconds after boot, by the tables of rules_test.go.
var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// boxes is a machine with one engine that has the given containers.
func boxes(t *testing.T, all ...engine.Info) *machine {
	t.Helper()
	h := table(t, "10 1 5 node s")
	h.Began, h.Machine = noon, ourMachine
	h.Engines = []*knownEngine{{
		Endpoint: engine.Endpoint{URL: "unix:///e", Socket: "/e"}, Have: all,
		ImageLabels: func(string) (map[string]string, error) { return nil, nil },
	}}
	return h
}

func gone(host proc.Host) string {
	return proc.GlobalID{ID: proc.ID{PID: 99_998, Start: 1}, Host: host}.String()
}

// box is a container of a session whose supervisor is dead, made a second before the pass; more are labels as "name=value".
func box(id, session string, more ...string) engine.Info {
	i := engine.Info{Kind: engine.Container, ID: id, Name: "n" + id, Image: "x", State: "running", Running: true, Created: noon.Add(-time.Second)}
	if session != "" {
		i.Labels = map[string]string{
			engine.LabelSession: session, engine.LabelRequest: "r" + id, engine.LabelSupervisor: gone(here), engine.LabelMachine: ourMachine,
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
		box  engine.Info
		want string
	}{
		"dead":                        {box("a", otherID), "container:a!"},
		"dead, and kept":              {box("a", otherID, "keep=1"), ""},
		"another machine, and kept":   {box("a", otherID, "supervisor="+gone(otherBoot), "machine=x", before, "keep=1"), ""},
		"no label":                    {box("a", ""), ""},
		"living supervisor":           {box("a", otherID, "supervisor="+alive), ""},
		"anchor of another namespace": {box("a", otherID, "anchor="+gone(otherNS)), "suspect:a"},
		"a clone":                     {box("a", otherID, "supervisor="+gone(otherBoot)), "suspect:a"},
		"made at no time":             {box("a", otherID, "created="), ""},
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
}

// Whatever a user asks to be left alone stays out of it.
func TestContainersAndFilters(t *testing.T) {
	h := func() *machine {
		return boxes(t, box("a", otherID), box("b", deadID), box("c", deadID, "supervisor=x"))
	}
	if got := fates(h(), Rules{Session: deadID}); got != "container:b! suspect:c" {
		t.Errorf("one session: got %q", got)
	}
	if got := fates(h(), Rules{MinAge: 99}); got != "container:a! container:b! suspect:c" {
		t.Errorf("older: got %q", got)
	}
	if got := fates(h(), Rules{MinAge: 101}); got != "" {
		t.Errorf("younger: got %q", got)
	}
}

// A record without processes is as old as its eldest container, or else as its session.
func TestRecordMinAge(t *testing.T) {
	const hour = 3600 * proc.TicksPerSecond
	for name, c := range map[string]struct {
		all  []engine.Info
		age  uint64
		want int
	}{
		"of a young container":       {[]engine.Info{box("a", deadID)}, hour, 0},
		"of one that is old enough":  {[]engine.Info{box("a", deadID)}, proc.TicksPerSecond, 1},
		"with nothing left, but old": {nil, hour, 1},
	} {
		h, s := noted(t, "a", c.all...)
		s.Started = noon.Add(-2 * time.Hour)
		found := find(h, Rules{MinAge: c.age})
		if len(found) != c.want {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		for _, f := range found {
			f.record = &session.Directory{}
			if f.describe(h); f.AgeSeconds != int64(h.Began.Sub(f.born).Seconds()) || f.AgeSeconds == 0 || f.User == "" {
				t.Errorf("%s: %d s, user %q", name, f.AgeSeconds, f.User)
			}
		}
	}
}

// noted is a machine with the record of a dead session that noted containers.
func noted(t *testing.T, ids string, all ...engine.Info) (*machine, *storedSession) {
	t.Helper()
	h := boxes(t, all...)
	s := h.dead(0)
	s.At = h.Engines[0]
	for id := range strings.FieldsSeq(ids) {
		s.Ledger.Add(engine.Note{Op: engine.OpCreated, Kind: engine.Container, ID: id, Request: "r" + id})
	}
	return h, s
}

func TestRecordedContainers(t *testing.T) {
	alive := "supervisor=" + proc.GlobalID{ID: proc.ID{PID: 10, Start: 5}, Host: here}.String()
	unlabelled := box("a", "")
	plain := unlabelled // but for the request: as of a session inside
	plain.Labels = map[string]string{engine.LabelRequest: "ra"}
	for name, c := range map[string]struct {
		ids  string
		all  []engine.Info
		more func(*machine, *storedSession)
		want string
	}{
		"its own":                      {ids: "a", all: []engine.Info{box("a", deadID)}, want: "record:a!"},
		"without label":                {ids: "a", all: []engine.Info{unlabelled}, want: "suspect:a"},
		"of a living inner":            {ids: "a b", all: []engine.Info{box("a", otherID, alive), box("b", deadID)}, want: "record:b!"},
		"of another boot":              {ids: "a", all: []engine.Info{plain}, more: func(_ *machine, s *storedSession) { s.Host.Boot = "old" }, want: "record:a!"},
		"of another boot and machine":  {ids: "a", all: []engine.Info{box("a", deadID, "machine=x", "supervisor="+gone(proc.Host{Boot: "old"}))}, more: func(_ *machine, s *storedSession) { s.Host.Boot = "old" }, want: "suspect:a"},
		"somebody's record":            {ids: "a", all: []engine.Info{plain}, more: ofSomebody},
		"somebody's record, and label": {ids: "a", all: []engine.Info{box("a", deadID)}, more: ofSomebody, want: "container:a!"},
		"recorded elsewhere":           {ids: "a", all: []engine.Info{plain}, more: func(_ *machine, s *storedSession) { s.At = &knownEngine{} }},
		"recorded nowhere":             {ids: "a", all: []engine.Info{plain}, more: func(_ *machine, s *storedSession) { s.At = nil }},
	} {
		h, s := noted(t, c.ids, c.all...)
		if c.more != nil {
			c.more(h, s)
		}
		if got := fates(h, Rules{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func ofSomebody(_ *machine, s *storedSession) { s.Owner, s.UID = 1000, 1000 }

// The record of a session stays as long as its containers could not be listed.
func TestEngineThatDoesNotAnswer(t *testing.T) {
	down := &knownEngine{Endpoint: engine.Endpoint{URL: "unix:///down"}, Err: errors.New("no answer")}
	for name, c := range map[string]struct {
		ids   string
		torn  error
		known bool
	}{
		"with containers":      {"a b", nil, false},
		"without":              {"", nil, true},
		"with a damaged notes": {"", errors.New("torn"), false},
	} {
		h, s := noted(t, c.ids)
		s.At, s.Torn = down, c.torn
		f := find(h, Rules{})[0]
		if (f.unseen == "") != c.known || f.ending != nil || strings.Contains(strings.Join(f.Evidence, ";"), "no answer") == c.known {
			t.Errorf("%s: %q, %q", name, f.unseen, f.Evidence)
		}
	}
}

// So does one whose engine is not known, or whose journal cannot be read: it may name containers.
func TestRecordThatCannotBeSettled(t *testing.T) {
	torn := fmt.Errorf("read journal: %w", session.ErrTorn)
	for name, c := range map[string]struct {
		ids       string
		torn      error
		nowhere   bool
		want      string
		unsettled bool
	}{
		"of an unknown engine":                        {ids: "a", nowhere: true, unsettled: true},
		"of an unknown engine, damaged":               {torn: torn, nowhere: true, unsettled: true},
		"of an unknown engine, without containers":    {nowhere: true},
		"that is damaged, and the engine answers":     {torn: torn, want: "record:a!"},
		"that cannot be read, and the engine answers": {torn: errors.New("no descriptor"), want: "record:a!", unsettled: true},
	} {
		h, s := noted(t, c.ids, box("a", deadID))
		h.Engines[0].Err, s.Torn = nil, c.torn
		if c.nowhere {
			s.At, h.Engines = nil, nil
		}
		if got := fates(h, Rules{}); got != c.want {
			t.Errorf("a journal %s: %q, want %q", name, got, c.want)
		}
		if f := find(h, Rules{})[0]; (f.unseen != "") != c.unsettled || (f.Advice != "") != c.unsettled {
			t.Errorf("a journal %s: %q, %q", name, f.unseen, f.Advice)
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
		e.Have[id] = &testkit.Object{Name: "n" + id, Running: true, Created: time.Unix(1, 0), Labels: map[string]string{engine.LabelRequest: "r" + id}}
	}
	e.url = e.Listen(t)
	return e
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

// scanned is a machine of which only the engines were read.
func scanned(t *testing.T, reach Reach, sessions ...*storedSession) (h *machine, warnings string) {
	t.Helper()
	h = boxes(t)
	h.Engines, h.UID = nil, os.Getuid()
	listing := newEngineListing(h, reach)
	defer listing.close()
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
	s := deadSession(t, e.url, "a", "b", "gone")
	h, warnings := scanned(t, Reach{Recorded: true}, s)
	found := find(h, Rules{})
	if err := endFindings(found, false, patiently(), math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Result != "ended" || len(found[0].Containers) != 2 || found[0].Containers[0].Result != "removed" || warnings != "" {
		t.Errorf("%+v, %s", found, warnings)
	}
	if _, ok := e.Have["theirs"]; !ok || len(e.Have) != 1 {
		t.Errorf("left are %v", e.Have)
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
	e.Lock()
	for id, host := range map[string]proc.Host{"a": here, "theirs": {Boot: "another"}, "late": {Boot: "another"}} {
		l := e.Have[id].Labels
		l[engine.LabelSession], l[engine.LabelCreated], l[engine.LabelSupervisor], l[engine.LabelMachine] = deadID, made, gone(host), "another"
	}
	e.Have["a"].Labels[engine.LabelMachine] = ourMachine
	s := deadSession(t, e.url, "a", "theirs")
	late := e.Have["late"]
	delete(e.Have, "late")
	e.Unlock()
	h, _ := scanned(t, Reach{Recorded: true}, s)
	h.Machine = ourMachine
	found := find(h, Rules{})
	e.Lock()
	e.Have["late"] = late
	e.Unlock()
	if err := endFindings(found, false, patiently(), math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	e.Lock()
	defer e.Unlock()
	if found[0].Result != resultEnded || len(e.Have) != 2 || e.Have["a"] != nil {
		t.Errorf("%+v, left %v", found[0], e.Have)
	}
}

// As long as a container is there, so is the record.
func TestEndOfContainersThatStay(t *testing.T) {
	e := startFake(t, "a")
	e.Takes = refusal(func(r *http.Request) bool { return r.Method == http.MethodDelete }, http.StatusInternalServerError, `{"message":"will not"}`)
	s := deadSession(t, e.url, "a")
	h, _ := scanned(t, Reach{Recorded: true}, s)
	found := find(h, Rules{})
	if err := endFindings(found, false, teardown.Grace{Kill: 5 * time.Second}, math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if f := found[0]; f.Result != resultSurvived || f.Containers[0].Result != resultSurvived || !strings.Contains(strings.Join(f.Survivors, ";"), "will not") {
		t.Errorf("%+v", f)
	}
	if names := left(t, s); names != ".containers .json" {
		t.Errorf("files left: %s", names)
	}
	e.Lock()
	e.Takes = nil
	e.Unlock()
	h, _ = scanned(t, Reach{Recorded: true}, s)
	found = find(h, Rules{})
	if err := endFindings(found, false, patiently(), math.MaxUint64); err != nil || found[0].Result != "ended" || left(t, s) != "" {
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
		"down, with containers":          {engine: nowhere, ids: []string{"a"}, reach: Reach{Recorded: true}, result: "failed"},
		"down, without":                  {engine: nowhere, reach: Reach{Recorded: true}, result: "removed"},
		"not looked at, with containers": {engine: nowhere, ids: []string{"a"}, reach: Reach{None: true}, result: "failed"},
		"not looked at, without":         {engine: nowhere, reach: Reach{None: true}, result: "removed"},
		"no engine":                      {reach: Reach{Recorded: true}, result: "removed"},
		"an engine that means nothing":   {engine: "x://y", ids: []string{"a"}, reach: Reach{Recorded: true}, result: "failed"},
		"an engine that meant nothing":   {engine: "x://y", reach: Reach{Recorded: true}, result: "removed"},
		"down when it comes to be asked": {engine: nowhere, ids: []string{"a"}, reach: Reach{Recorded: true}, result: "failed"},
	} {
		s := deadSession(t, c.engine, c.ids...)
		h, _ := scanned(t, c.reach, s)
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
	e.Lock()
	e.Takes = refusal(func(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, "/containers/") }, http.StatusForbidden, "Request forbidden by administrative rules.")
	e.Unlock()
	s := deadSession(t, e.url, "a")
	h, warnings := scanned(t, Reach{Recorded: true}, s)
	found := find(h, Rules{})
	if err := endFindings(found, false, patiently(), math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Result != "ended" || e.Have["a"] != nil || e.Have["theirs"] == nil || warnings != "" {
		t.Errorf("%+v, left %v, %s", found, e.Have, warnings)
	}
}

// An engine goes away between the scan and the end.
func TestEndOfEngineThatGoes(t *testing.T) {
	e := startFake(t, "a")
	s := deadSession(t, e.url, "a")
	h, _ := scanned(t, Reach{Recorded: true}, s)
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

// An engine that is reached by another name is the same engine. The proxy of a session that has ended stands for it.
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
	h, warnings := scanned(t, Reach{Engine: e.url}, outer, inner, lost)
	if len(h.Engines) != 1 || h.Engines[0].Err != nil || len(h.Engines[0].Have) != 1 || warnings != "" {
		t.Fatalf("%+v %s", h.Engines, warnings)
	}
	for i, s := range h.Sessions {
		if s.At != h.Engines[0] {
			t.Errorf("session %d: %+v", i, s.At)
		}
	}
	lists := 0
	for _, c := range e.Seen {
		if c == "GET /containers/json?all=1" {
			lists++
		}
	}
	if lists != 1 {
		t.Errorf("asked %d times: %q", lists, e.Seen)
	}
}

// An engine that the session reached through the podman command is reached through it again. A record of an earlier version
// says nothing of that.
func TestEngineBehindPodman(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // neither command is there to be run
	s, old := deadSession(t, "ssh://far", "a"), deadSession(t, "ssh://far", "a")
	s.EnginePodman = true
	h, warnings := scanned(t, Reach{Recorded: true}, old, s, s)
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
	h, _ := scanned(t, Reach{Recorded: true}, s)
	if !errors.Is(h.Sessions[0].At.Err, errNotSocket) || len(h.Engines) != 0 {
		t.Errorf("%+v, %+v", h.Sessions[0].At, h.Engines)
	}
	var many []*storedSession
	for n := range 2 * maxEngines {
		s := deadSession(t, fmt.Sprintf("unix:///nowhere/%d.sock", n), "a")
		s.Owner = os.Getuid() + 1
		many = append(many, s)
	}
	h, _ = scanned(t, Reach{Recorded: true}, many...)
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
		h, warnings := scanned(t, reach, living, unsure)
		if len(h.Engines) != 0 || len(e.Seen) != 0 || warnings != "" {
			t.Errorf("%+v: %v, %q, %s", reach, h.Engines, e.Seen, warnings)
		}
	}
	if _, warnings := scanned(t, Reach{Engine: "unix:///nowhere"}); !strings.Contains(warnings, "unix:///nowhere") {
		t.Errorf("an engine that was named: %q", warnings)
	}
	if _, warnings := scanned(t, Reach{Engine: "x://y"}); warnings == "" {
		t.Error("an engine that means nothing")
	}
}
