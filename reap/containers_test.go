package reap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/clients"
	"mcp-tether/engine"
	"mcp-tether/proc"
	"mcp-tether/session"
)

// noon is when the passes of these tests begin: ten seconds after boot, by the tables of rules_test.go.
var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// boxes is a host with one engine that has the given containers.
func boxes(t *testing.T, all ...engine.Info) *host {
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
func fates(h *host, r Rules) string {
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
		"dead":                              {box("a", otherID), "container:a!"},
		"no label":                          {box("a", ""), ""},
		"living supervisor":                 {box("a", otherID, "supervisor="+alive), ""},
		"living anchor":                     {box("a", otherID, "anchor="+alive), ""},
		"dead anchor":                       {box("a", otherID, "anchor="+gone(here)), "container:a!"},
		"anchor of another namespace":       {box("a", otherID, "anchor="+gone(otherNS)), "suspect:a"},
		"anchor that cannot be read":        {box("a", otherID, "anchor=x"), "suspect:a"},
		"supervisor that cannot be read":    {box("a", otherID, "supervisor=1:2"), "suspect:a"},
		"supervisor of no boot":             {box("a", otherID, "supervisor=1:2::3"), "suspect:a"},
		"another namespace":                 {box("a", otherID, "supervisor="+gone(otherNS)), "suspect:a"},
		"another machine":                   {box("a", otherID, "supervisor="+gone(otherBoot), "machine=x", before), "suspect:a"},
		"no machine":                        {box("a", otherID, "supervisor="+gone(otherBoot), "machine=", before), "suspect:a"},
		"another machine id, but this boot": {box("a", otherID, "machine=x"), "container:a!"},
		"a clone":                           {box("a", otherID, "supervisor="+gone(otherBoot)), "suspect:a"},
		"made after the pass began":         {box("a", otherID, "created="+noon.Format(time.RFC3339Nano)), ""},
		"made at no time":                   {box("a", otherID, "created="), ""},
		"made at another time":              {box("a", otherID, before), "suspect:a"},
	} {
		if got := fates(boxes(t, c.box), Rules{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestContainersOfAnEarlierBoot(t *testing.T) {
	b := box("a", otherID, "supervisor="+gone(proc.Host{Boot: "old", PIDNS: 7}))
	b.Created = noon.Add(-time.Hour)
	b.Labels[engine.LabelCreated] = b.Created.Format(time.RFC3339Nano)
	if got := fates(boxes(t, b), Rules{}); got != "container:a!" {
		t.Errorf("got %q", got)
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
	h := func() *host { return boxes(t, box("a", otherID), box("b", deadID), box("c", deadID, "supervisor=x")) }
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
		"of a young container":        {[]engine.Info{box("a", deadID)}, hour, 0},
		"of one that is old enough":   {[]engine.Info{box("a", deadID)}, proc.TicksPerSecond, 1},
		"with nothing left":           {nil, 3 * hour, 0},
		"with nothing left, but old":  {nil, hour, 1},
		"of another boot, but as old": {nil, hour, 1},
	} {
		h, s := noted(t, "a", c.all...)
		s.Started = noon.Add(-2 * time.Hour)
		if strings.Contains(name, "boot") {
			s.Host.Boot = "old"
		}
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

// noted is a host with the record of a dead session that noted containers.
func noted(t *testing.T, ids string, all ...engine.Info) (*host, *storedSession) {
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
		more func(*host, *storedSession)
		want string
	}{
		"its own":              {"a", []engine.Info{box("a", deadID)}, nil, "record:a!"},
		"without session":      {"a", []engine.Info{plain}, nil, "record:a!"},
		"without label":        {"a", []engine.Info{unlabelled}, nil, "suspect:a"},
		"gone":                 {"b", []engine.Info{plain}, nil, ""},
		"never noted":          {"", []engine.Info{box("a", deadID), box("b", otherID)}, nil, "container:b! record:a!"},
		"of a living inner":    {"a b", []engine.Info{box("a", otherID, alive), box("b", deadID)}, nil, "record:b!"},
		"of a dead inner":      {"a", []engine.Info{box("a", otherID)}, nil, "record:a!"},
		"of an inner unseen":   {"a", []engine.Info{box("a", otherID, "supervisor=x")}, nil, "record:a!"},
		"of an inner recorded": {"a", []engine.Info{box("a", otherID)}, heldInner, ""},
		"asked for by a living inner": {"", []engine.Info{box("a", otherID, alive)}, func(_ *host, s *storedSession) {
			s.Ledger.Add(engine.Note{Op: engine.OpCreate, Kind: engine.Container, Request: "ra", At: noon.Add(-2 * time.Second)})
		}, ""},
		"of another boot":                      {"a", []engine.Info{plain}, func(_ *host, s *storedSession) { s.Host.Boot = "old" }, "record:a!"},
		"of another boot and machine":          {"a", []engine.Info{box("a", deadID, "machine=x", "supervisor="+gone(proc.Host{Boot: "old"}))}, func(_ *host, s *storedSession) { s.Host.Boot = "old" }, "suspect:a"},
		"of another namespace":                 {"a", []engine.Info{plain}, func(_ *host, s *storedSession) { s.Host.PIDNS++ }, ""},
		"somebody's record":                    {"a", []engine.Info{plain}, ofSomebody, ""},
		"somebody's record, and label":         {"a", []engine.Info{box("a", deadID)}, ofSomebody, "container:a!"},
		"somebody's record, and living label":  {"a", []engine.Info{box("a", deadID, alive)}, ofSomebody, ""},
		"somebody's record, and foreign label": {"a", []engine.Info{box("a", deadID, "supervisor=x")}, ofSomebody, "suspect:a"},
		"somebody's record, another's label":   {"a", []engine.Info{box("a", otherID, alive)}, ofSomebody, ""},
		"recorded elsewhere":                   {"a", []engine.Info{plain}, func(_ *host, s *storedSession) { s.At = &knownEngine{} }, ""},
		"recorded nowhere":                     {"a", []engine.Info{plain}, func(_ *host, s *storedSession) { s.At = nil }, ""},
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

func ofSomebody(_ *host, s *storedSession) { s.Owner, s.UID = 1000, 1000 }

func heldInner(h *host, s *storedSession) {
	inner := *s
	inner.ID, inner.Held = otherID, true
	inner.Ledger = engine.Ledger{}
	h.Sessions = append(h.Sessions, inner)
}

// A container that was there before is stopped, never removed, and only if it has been running since the session
// started it.
func TestStartedContainers(t *testing.T) {
	for name, c := range map[string]struct {
		since time.Time
		owner int
		want  string
	}{
		"since":                     {noon.Add(-time.Minute), 0, "record:a!"},
		"started again":             {noon, 0, ""},
		"by a record of somebody's": {noon.Add(-time.Minute), 1000, ""},
	} {
		b := box("a", "")
		b.StartedAt = c.since
		h, s := noted(t, "", b)
		s.Owner, s.UID = c.owner, c.owner
		s.Ledger.Add(engine.Note{Op: engine.OpStarted, ID: "a", Started: noon.Add(-time.Minute).Format(time.RFC3339Nano)})
		if got := fates(h, Rules{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for _, f := range find(h, Rules{}) {
			for _, x := range containersStruck(f) {
				if !x.stop {
					t.Errorf("%s: it would be removed", name)
				}
			}
		}
	}
}

// The record of a session stays as long as its containers could not be looked for.
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
		"of an unknown engine":                        {"a", nil, true, "", true},
		"of an unknown engine, damaged":               {"", torn, true, "", true},
		"of an unknown engine, without containers":    {"", nil, true, "", false},
		"that is damaged, and the engine answers":     {"", torn, false, "record:a!", false},
		"that cannot be read, and the engine answers": {"", errors.New("no descriptor"), false, "record:a!", true},
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

// A container is named once, by its record, and never again by its label, in whatever engine it is seen.
func TestContainersAreNamedOnce(t *testing.T) {
	h, _ := noted(t, "a", box("a", deadID), box("b", otherID))
	h.Engines = append(h.Engines, &knownEngine{Endpoint: engine.Endpoint{URL: "unix:///too"}, Have: h.Engines[0].Have, ImageLabels: h.Engines[0].ImageLabels})
	if got := fates(h, Rules{}); got != "container:b! record:a!" {
		t.Errorf("got %q", got)
	}
}

func TestLookAlikes(t *testing.T) {
	config := clients.NewMatcher([]clients.File{{
		UID: 1000, Servers: []clients.Server{{Name: "boxed", Command: "docker", Args: []string{"run", "-i", "mcp/x"}}},
	}}, nil)
	const client, anchor = " docker docker run -i mcp/x", "20 1 5 mcp-tether mcp-tether run -- x"
	for name, c := range map[string]struct {
		plain, labelled int
		rows            []string
		want            int
	}{
		"none":                               {0, 0, nil, 0},
		"without client":                     {2, 0, nil, 2},
		"with theirs":                        {2, 0, []string{"30 1 6" + client, "31 1 6" + client}, 0},
		"one too many":                       {2, 0, []string{"30 1 6" + client}, 1},
		"a client of something else":         {1, 0, []string{"30 1 6 docker docker run -i mcp/y"}, 1},
		"a session's container and client":   {1, 1, []string{anchor, "30 20 6" + client}, 1},
		"a session that goes past the proxy": {1, 0, []string{anchor, "30 20 6" + client}, 0},
		"a session's alone":                  {0, 1, []string{anchor, "30 20 6" + client}, 0},
	} {
		h := boxes(t)
		extra := table(t, c.rows...)
		h.Procs = append(h.Procs, extra.Procs[2:]...)
		for n := range c.plain + c.labelled {
			b := box(fmt.Sprint("a", n), "")
			if n >= c.plain {
				b = box(fmt.Sprint("a", n), otherID, "supervisor="+proc.GlobalID{ID: proc.ID{PID: 10, Start: 5}, Host: here}.String())
			}
			b.Image, b.Created = "docker.io/mcp/x:latest", noon.Add(-time.Minute)
			h.Engines[0].Have = append(h.Engines[0].Have, b)
		}
		found := find(h, Rules{Image: config.Image})
		switch {
		case c.want == 0 && len(found) > 0:
			t.Errorf("%s: found %+v", name, found)
		case c.want > 0 && (len(found) != 1 || found[0].Class != classSuspect || found[0].Count != c.want || len(found[0].Containers) != c.plain || found[0].ending != nil):
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

// A container that is not running, is young, or is in an engine elsewhere says nothing.
func TestLookAlikesLeftOut(t *testing.T) {
	config := clients.NewMatcher([]clients.File{{
		AnyUser: true, Servers: []clients.Server{{Name: "boxed", Command: "docker", Args: []string{"run", "x"}}},
	}}, nil)
	for name, change := range map[string]func(*knownEngine){
		"young":       func(e *knownEngine) { e.Have[0].Created = noon },
		"not running": func(e *knownEngine) { e.Have[0].Running = false },
		"elsewhere":   func(e *knownEngine) { e.Socket = "" },
		"not known":   func(e *knownEngine) { e.Err = errors.New("no answer") },
		"other image": func(e *knownEngine) { e.Have[0].Image = "y" },
		"a pod":       func(e *knownEngine) { e.Have[0].Kind = engine.Pod },
	} {
		b := box("a", "")
		b.Created = noon.Add(-time.Minute)
		h := boxes(t, b)
		if got := fates(h, Rules{Image: config.Image}); got != "suspect:a" {
			t.Fatalf("unchanged: got %q", got)
		}
		change(h.Engines[0])
		if got := fates(h, Rules{Image: config.Image}); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
