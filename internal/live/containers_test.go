package live

import (
	"os"
	"testing"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
)

func TestAddContainers(t *testing.T) {
	of := func(id string) map[string]string { return map[string]string{engine.LabelSession: id} }
	e := &testkit.Engine{Have: map[string]*testkit.Object{
		"a": {Name: "na", Running: true, Labels: of("one")}, "b": {Labels: of("one")}, "theirs": {Running: true}, "net": {Network: true, Labels: of("one")}, "c": {Labels: of("behind")},
	}}
	url := e.Listen(t)
	using := func(id, url string, used bool) Session {
		return Session{Record: session.Record{ID: id, UID: os.Getuid(), Containers: session.Containers{Engine: url, EngineUsed: used}}}
	}
	all := []Session{
		using("one", url, true), using("two", url, false), using("one", "unix:///nowhere", true), using("one", "tcp://127.0.0.1:1", true), using("front", url, true),
	}
	all[3].UID++
	all[4].behind = "behind"
	AddContainers(all)
	if c := all[0].Containers; len(c) != 2 || c[0].ID != "a" || c[0].Name != "na" || c[0].State != "running" || c[0].Engine != url || all[0].countContainers() != "2" {
		t.Errorf("%+v", c)
	}
	for i, want := range map[int]string{1: "0", 2: "?", 3: "?", 4: "1"} {
		if got := all[i].countContainers(); got != want {
			t.Errorf("%d: %s, %+v", i, got, all[i].Containers)
		}
	}
	asked := len(e.Asked(""))
	AddContainers(all[1:2])
	if len(e.Asked("")) > asked {
		t.Error("the engine was asked for a session that has not used it")
	}
}
