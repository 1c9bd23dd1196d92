package keeper

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"mcp-tether/internal/engine"
)

// An engine that sees our files mounts the session's socket where a client names the engine's. An engine that does not
// see them mounts its own where a client names the session's. An engine that does not tell, or that is elsewhere, gets
// what the client said.
func TestMountsOfSockets(t *testing.T) {
	const (
		asIs = "" // as the client says, with a warning if it is the engine's
		ours = "ours"
		own  = "own"
	)
	notThere := reply(400, `{"message":"invalid mount config for type \"bind\": bind source path does not exist: /x"}`)
	noImage := reply(404, `{"message":"No such image"}`)
	for name, x := range map[string]struct {
		seen, absent string // what the engine says of a mount of the session's socket, and of one that is not there
		elsewhere    bool
		mounts       string // with OWN, a LINK to it and OURS, the paths of the engine's socket and of the session's
		want         string
		warns        bool
	}{
		"bind":                    {noImage, notThere, false, `"HostConfig":{"Binds":["data:/d","OWN:/var/run/docker.sock:ro"]}`, ours, false},
		"bind of a link":          {noImage, notThere, false, `"HostConfig":{"Binds":["LINK:/s"],"Mounts":null}`, ours, false},
		"mount":                   {noImage, notThere, false, `"HostConfig":{"Mounts":[{"Target":"/d"},{"Type":"bind","Source":"OWN","Target":"/x"}]}`, ours, false},
		"libpod":                  {noImage, notThere, false, `"mounts":[{"type":"bind","Source":"OWN","destination":"/x"}]`, ours, false},
		"two binds":               {noImage, notThere, false, `"HostConfig":{"Binds":["OWN:/a","OWN:/b"]}`, ours, false},
		"not seen":                {notThere, notThere, false, `"HostConfig":{"Binds":["OWN:/s"]}`, asIs, true},
		"not told":                {noImage, noImage, false, `"HostConfig":{"Binds":["OWN:/s"]}`, asIs, true},
		"refused":                 {reply(403, `{"message":"no"}`), notThere, false, `"HostConfig":{"Binds":["OWN:/s"]}`, asIs, true},
		"elsewhere":               {noImage, notThere, true, `"HostConfig":{"Binds":["/var/run/docker.sock:/s"]}`, asIs, false},
		"ours":                    {noImage, notThere, false, `"HostConfig":{"Binds":["OURS:/s"]}`, asIs, false},
		"ours, not seen":          {notThere, notThere, false, `"HostConfig":{"Binds":["OURS:/s"]}`, own, true},
		"ours, not told":          {noImage, noImage, false, `"HostConfig":{"Binds":["OURS:/s"]}`, asIs, false},
		"ours, elsewhere":         {noImage, notThere, true, `"HostConfig":{"Binds":["OURS:/s"]}`, asIs, false},
		"neither":                 {noImage, notThere, false, `"HostConfig":{"Binds":["/data:OWN","OWN.none:/s"]}`, asIs, false},
		"none":                    {noImage, notThere, false, `"Cmd":["OWN"]`, asIs, false},
		"own, and ours elsewhere": {noImage, notThere, false, `"HostConfig":{"Binds":["OWN:/a"]},"Env":["OWN","OURS"]`, ours, false},
	} {
		var got string
		s := newScene(t, func(c *peer) {
			switch _, object, ok := c.hearRequest(); {
			case !ok:
			case !strings.Contains(object, "sha256:000"):
				got = object
				c.say(reply(201, `{"Id":"c1"}`))
			case strings.Contains(object, ".none"):
				c.say(x.absent)
			default:
				c.say(x.seen)
			}
		}, func(p *proxy) {
			if x.elsewhere {
				p.At = engine.Endpoint{URL: "tcp://far:1"}
			}
		})
		at := map[string]string{own: filepath.Join(s.dir, "engine"), ours: filepath.Join(s.dir, "proxy"), "link": filepath.Join(s.dir, "link")}
		if err := os.Symlink(at[own], at["link"]); err != nil {
			t.Fatal(err)
		}
		mounts := strings.NewReplacer("OWN", at[own], "OURS", at[ours], "LINK", at["link"]).Replace(x.mounts)
		want := mounts
		if x.want != asIs {
			args, env, _ := strings.Cut(mounts, `,"Env"`)
			for _, old := range []string{at[own], at["link"], at[ours]} {
				args = strings.ReplaceAll(args, old+`"`, at[x.want]+`"`)
				args = strings.ReplaceAll(args, old+`:`, at[x.want]+`:`)
			}
			want = args
			if env != "" {
				want += `,"Env"` + env
			}
		}
		c := s.client()
		c.say(post("/containers/create?name=n", "{"+mounts+"}"))
		c.hear(reply(201, `{"Id":"c1"}`))
		if !reflect.DeepEqual(rest(t, got), rest(t, "{"+want+"}")) {
			t.Errorf("%s: the engine got %s, want {%s}", name, got, want)
		}
		s.mu.Lock()
		if warned := slices.ContainsFunc(s.warnings, func(err error) bool { return strings.Contains(err.Error(), "has the engine's own socket") }); warned != x.warns {
			t.Errorf("%s: warned: %v", name, s.warnings)
		}
		s.mu.Unlock()
	}
}

// The labels have the time of the create. A busy engine may take long to say what it sees, so it is asked first.
func TestLabelsAreMadeAfterAllQuestions(t *testing.T) {
	var asked atomic.Bool
	s := newScene(t, func(c *peer) {
		if _, object, _ := c.hearRequest(); strings.Contains(object, "sha256:000") {
			asked.Store(true)
		}
		c.say(reply(404, "{}"))
	}, func(p *proxy) {
		labels := p.Labels
		p.Labels = func() map[string]string {
			if !asked.Load() {
				t.Error("made before the engine was asked")
			}
			return labels()
		}
	})
	c := s.client()
	c.say(post("/containers/create", `{"HostConfig":{"Binds":["`+filepath.Join(s.dir, "engine")+`:/s"]}}`))
	c.hear(reply(404, "{}"))
}
