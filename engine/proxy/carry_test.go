package proxy

import (
	"fmt"
	"strings"
	"testing"
)

// A container gets volumes by name. Those that the engine made for another one of the session are noted.
func TestVolumesThatAreCarriedOver(t *testing.T) {
	name := func(digit string) string { return strings.Repeat(digit, 64) }
	const made = "2026-01-02T03:04:05Z"
	answers := map[string]string{"POST /containers/create": reply(201, `{"Id":"c1"}`)}
	for digit, users := range map[string]string{"a": `[{"Id":"c1"}]`, "b": `[{"Id":"foreign"}]`, "c": `[{"Id":"c1"}]`, "d": `[]`} {
		answers["GET /containers/json?all=1&filters=%7B%22volume%22:%5B%22"+name(digit)+"%22%5D%7D"] = reply(200, users)
		answers["GET /volumes/"+name(digit)] = reply(200, fmt.Sprintf(`{"Name":%q,"CreatedAt":%q}`, name(digit), made))
	}
	// Its own are a and one more, and c it was given by name.
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
