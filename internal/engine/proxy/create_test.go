package proxy

import (
	"strings"
	"testing"
)

// What the engine would remove with a container, though it may be an anonymous volume of another one.
func TestVolumesOfOthers(t *testing.T) {
	name := strings.Repeat("a", 64)
	for object, want := range map[string]bool{
		`{}`: false,
		`{"HostConfig":{"VolumesFrom":["c:ro"]}}`:                          true,
		`{"volumes_from":["c"]}`:                                           true,
		`{"HostConfig":{"Binds":["data:/d","` + name + `:/e:rw"]}}`:        true,
		`{"hostconfig":{"mounts":[{"type":"volume","source":"NAME"}]}}`:    true,
		`{"volumes":[{"Name":"NAME","Dest":"/d"}]}`:                        true,
		`{"volumes":[{"Name":"data","Dest":"/d"}]}`:                        false,
		`{"Volumes":{"/d":{}},"HostConfig":{"Binds":["/NAME:/d"]}}`:        false,
		`{"HostConfig":{"Mounts":[{"Type":"volume","Target":"/d"}]}}`:      false,
		`{"HostConfig":{"Binds":["` + strings.Repeat("g", 64) + `:/d"]}}`:  false,
		`{"HostConfig":{"Binds":["` + strings.Repeat("a", 63) + `:/d"]}}`:  false,
		`{"Env":["x=NAME"],"HostConfig":{"Mounts":[{"Source":"/tmp/x"}]}}`: false,
	} {
		if got := borrowedBy([]byte(strings.ReplaceAll(object, "NAME", name))).volumes(); got != want {
			t.Errorf("%s: %v", object, got)
		}
	}
}

// The label reaches the engine, for containers only.
func TestVolumesOfOthersAreLabelled(t *testing.T) {
	const borrows = `{"HostConfig":{"VolumesFrom":["c"]}}`
	s := newScene(t, func(e *peer) {
		for _, want := range []bool{true, false, false} {
			if line, object, _ := e.hearRequest(); strings.Contains(object, `"mcp-tether.volumes":"borrowed"`) != want {
				t.Errorf("%s: %s", line, object)
			}
			e.say(reply(201, `{"Id":"c1"}`))
		}
	})
	c := s.client()
	for _, request := range []string{post("/containers/create", borrows), post("/containers/create", "{}"), post("/networks/create", borrows)} {
		c.say(request)
		c.hear(reply(201, `{"Id":"c1"}`))
	}
}
