package live

import (
	"os"
	"testing"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

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
	e := &testkit.Engine{Have: map[string]*testkit.Object{"a": {Name: "na", Running: true}, "theirs": {Running: true}, "b": {}}}
	url := e.Listen(t)
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
	asked := len(e.Asked(""))
	AddContainers(all[1:2])
	if len(e.Asked("")) > asked {
		t.Error("the engine was asked for a session without containers")
	}
}
