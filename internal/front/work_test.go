package front

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

// What is not known of a container is no sign that it is over. An engine that hangs holds nothing up.
func TestContained(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	fail := func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "", http.StatusInternalServerError)
		return true
	}
	for name, c := range map[string]struct {
		have  map[string]*testkit.Object
		takes func(http.ResponseWriter, *http.Request) bool
		url   string
		want  string
	}{
		"gone":      {},
		"over":      {have: map[string]*testkit.Object{"a": {Name: "it"}}},
		"runs":      {have: map[string]*testkit.Object{"a": {Name: "it", Running: true}}, want: "container it runs"},
		"kept":      {have: map[string]*testkit.Object{"a": {Running: true, Labels: map[string]string{engine.LabelKeep: "1"}}}},
		"hangs":     {takes: hang, want: "the container engine does not answer"},
		"fails":     {takes: fail, want: "500"},
		"is down":   {url: "unix:///none", want: "no such file"},
		"elsewhere": {url: "ssh://example.org", want: "looked after"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &testkit.Engine{Have: c.have, Takes: c.takes}
			if c.url == "" {
				c.url = e.Listen(t)
			}
			r := &session.Record{ID: session.NewID(), Engine: c.url}
			f := &front{}
			if why := f.contained(r); why != "" {
				t.Fatalf("of an engine that was not used: %q", why)
			}
			r.EngineUsed = true
			for _, x := range e.Have {
				if x.Labels == nil {
					x.Labels = map[string]string{}
				}
				x.Labels[engine.LabelSession], x.Labels[engine.LabelCreated] = r.ID, time.Now().Format(time.RFC3339Nano)
			}
			if why := f.contained(r); why != asking {
				t.Fatalf("not asked: %q", why)
			}
			if c.takes == nil || name == "fails" {
				testkit.Until(t, "an answer", func() bool { return len(f.back.seen.answer) > 0 })
			}
			if why := f.contained(r); c.want == "" && why != "" || !strings.Contains(why, c.want) {
				t.Errorf("%q, want %q", why, c.want)
			}
		})
	}
}

// The processes of a tree are told from those of our own by their program.
func TestTree(t *testing.T) {
	f := &front{}
	before, err := f.tree()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Kill(); _, _ = p.Wait() }()
	testkit.Until(t, "a member", func() bool {
		after, err := f.tree()
		return err == nil && len(after.members) == len(before.members)+1 && after.known[p.Pid]
	})
}
