package proxy

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// A new container gets volumes by name. Those that the engine made for another container of the session are noted.
func TestVolumesThatAreCarriedOver(t *testing.T) {
	name := func(digit string) string { return strings.Repeat(digit, 64) }
	const made = "2026-01-02T03:04:05Z"
	answers := map[string]string{"POST /containers/create": reply(201, `{"Id":"c1"}`)}
	for digit, users := range map[string]string{"a": `[{"Id":"c1"}]`, "b": `[{"Id":"foreign"}]`, "c": `[{"Id":"c1"}]`, "d": `[]`} {
		answers["GET /containers/json?all=1&filters=%7B%22volume%22:%5B%22"+name(digit)+"%22%5D%7D"] = reply(200, users)
		answers["GET /volumes/"+name(digit)] = reply(200, fmt.Sprintf(`{"Name":%q,"CreatedAt":%q}`, name(digit), made))
	}
	// Volume a is its own; c it was given by name.
	inspected := fmt.Sprintf(`{"Id":%%q,"Mounts":[{"Type":"volume","Name":%q},{"Type":"volume","Name":%q}],"HostConfig":{"Binds":["%s:/c"]}}`, name("a"), name("c"), name("c"))
	answers["GET /containers/c1/json"] = reply(200, fmt.Sprintf(inspected, "c1"))
	answers["GET /containers/foreign/json"] = reply(200, fmt.Sprintf(inspected, "foreign"))
	s := newScene(t, table(answers))
	c := s.client()
	create := func(binds ...string) {
		t.Helper()
		c.say(post("/containers/create", fmt.Sprintf(`{"HostConfig":{"Binds":["%s"]}}`, strings.Join(binds, `","`))))
		c.hear(reply(201, `{"Id":"c1"}`))
	}
	create(name("a") + ":/data") // before there is a container of the session
	s.expectNotes("create container r1; created container r1 c1")
	create(name("a")+":/data:rw", name("b")+":/b", name("c")+":/c", name("d")+":/d", "named:/n", "/"+name("a")+":/x")
	s.expectNotes("create container r1; created container r1 c1; carry volume " + name("a") + " " + made + "; create container r2; created container r2 c1")
	create(name("a") + ":/data") // once is enough
	s.expectNotes("create container r1; created container r1 c1; carry volume " + name("a") + " " + made +
		"; create container r2; created container r2 c1; create container r3; created container r3 c1")
}

// Podman does not tell which volumes it made for a container. A volume that a create of the session has named is
// another's. The container is labelled so, because podman would remove the volume with it.
func TestVolumesOfOthersAreLabelled(t *testing.T) {
	name := func(digit string) string { return strings.Repeat(digit, 64) }
	answers := map[string]string{"POST /libpod/containers/create": reply(201, `{"Id":"c1"}`)}
	for digit, users := range map[string]string{"a": `[{"Id":"c1"}]`, "b": `[{"Id":"foreign"},{"Id":"c1"}]`} {
		answers["GET /containers/json?all=1&filters=%7B%22volume%22:%5B%22"+name(digit)+"%22%5D%7D"] = reply(200, users)
		answers["GET /volumes/"+name(digit)] = reply(200, fmt.Sprintf(`{"Name":%q,"CreatedAt":"2026-01-02T03:04:05Z"}`, name(digit)))
	}
	answers["GET /containers/c1/json"] = reply(200, fmt.Sprintf(
		`{"Id":"c1","Mounts":[{"Type":"volume","Name":%q},{"Type":"volume","Name":%q}],"HostConfig":{"Binds":["%s:/a","%s:/b"]}}`, name("a"), name("b"), name("a"), name("b")))
	var labelled []bool // the container creates in turn
	s := newScene(t, func(c *peer) {
		for {
			line, object, ok := c.hearRequest()
			if !ok {
				return
			}
			if strings.HasPrefix(line, "POST") {
				labelled = append(labelled, strings.Contains(object, `"mcp-tether.volumes":"others"`))
			}
			answer := answers[line]
			if answer == "" {
				answer = reply(404, "{}")
			}
			c.say(answer)
		}
	})
	c := s.client()
	for _, object := range []string{
		`{"volumes":[{"Name":"` + name("b") + `","Dest":"/b"}]}`, // another's
		`{"volumes":[{"Name":"` + name("a") + `","Dest":"/a"}]}`, // the session's
		`{"volumes":[{"Name":"` + name("a") + `","Dest":"/a"},{"Name":"` + name("b") + `","Dest":"/b"}]}`,
		`{"volumes":[{"Name":"named","Dest":"/n"}]}`,
	} {
		c.say(post("/libpod/containers/create", object))
		c.hear(reply(201, `{"Id":"c1"}`))
	}
	if want := []bool{true, false, true, false}; !slices.Equal(labelled, want) {
		t.Errorf("labelled: %v, want %v", labelled, want)
	}
	if got := s.noted(); strings.Count(got, "carry") != 1 || !strings.Contains(got, "carry volume "+name("a")) {
		t.Errorf("noted: %s", got)
	}
}

// The labels have the time of the create. A busy engine may take long to say whose the volumes are, so it is asked first.
func TestLabelsAreMadeAfterAllQuestions(t *testing.T) {
	var asked atomic.Bool
	s := newScene(t, func(c *peer) {
		if line, _, _ := c.hearRequest(); line == "GET /containers/other/json" {
			asked.Store(true)
		}
		c.say(reply(404, "{}"))
	}, func(p *Proxy) {
		labels := p.Labels
		p.Labels = func() map[string]string {
			if !asked.Load() {
				t.Error("made before the engine was asked")
			}
			return labels()
		}
	})
	c := s.client()
	c.say(post("/containers/create", `{"HostConfig":{"VolumesFrom":["other"]}}`))
	c.hear(reply(404, "{}"))
}
