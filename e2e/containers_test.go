package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// A container is no descendant of the client that asked for it: whatever is done to that client, the container stays.

// box starts a session whose server is in a container, and returns once that is ready.
func (g *gateway) box(e *engine, with setup, l launcher, o order) *session {
	g.t.Helper()
	s := g.newSession()
	o.e, o.dir, o.image = e, s.Dir, e.image(g.t)
	with.Env = append(with.Env, boxEnviron(e, s)...)
	s.Spawn(with, l.argv(g.t, o)...)
	s.waitBox()
	// The server may speak before the engine says that it runs.
	e.awaitRunning(g.t, o.mark, 1)
	return s
}

// boxEnviron is what the clients of a session are told. Nothing they write goes to the user's home.
func boxEnviron(e *engine, s *session) []string {
	return append(e.environ(), "HOME="+s.Dir, "npm_config_update_notifier=false", "PYTHONDONTWRITEBYTECODE=1")
}

// waitBox waits for the line that says ready. Its pid is one of the container's.
func (s *session) waitBox() {
	s.t.Helper()
	if line := s.Read(); !strings.Contains(line, `"ready"`) {
		s.t.Fatalf("instead of ready the server said %q", line)
	}
	s.IDs = s.Records()
}

// serverPID is what the supervisor started: npm, a shell, or a client of the engine.
func (s *session) serverPID() int {
	s.t.Helper()
	pid := 0
	testkit.Until(s.t, "a server in the record", func() bool {
		pid = s.Record(s.ID()).Server.PID
		return pid > 1
	})
	return pid
}

// temper is how a server in a container takes being asked to end.
type temper struct {
	name  string
	words []string
}

var tempers = []temper{
	{"obliging", nil},
	{"ignores-eof", []string{"ignore-eof"}},
	{"no-handler", []string{"no-handler"}},
	{"ignores-both", []string{"ignore-eof", "ignore-term"}},
}

type boxEnding struct {
	name string
	end  func(*session)
}

var boxEndings = []boxEnding{
	{"gateway", func(s *session) { s.gw.Kill() }},
	{"wrapper", func(s *session) { s.Signal(syscall.SIGTERM) }},
	{"anchor", func(s *session) { s.Signal(syscall.SIGKILL) }},
	{"supervisor", func(s *session) { _ = syscall.Kill(s.Supervisor(), syscall.SIGKILL) }},
	{"launcher", func(s *session) { _ = syscall.Kill(s.serverPID(), syscall.SIGKILL) }},
}

func TestContainersEndWithTheirSession(t *testing.T) {
	e := engineFor(t)
	bystanders := newBystanders(t, e)
	t.Run("all", func(t *testing.T) {
		for i, end := range boxEndings {
			for j, temper := range tempers {
				// All tempers with all endings; each launcher has two or three of them, and no two of the same temper or ending.
				n := i*len(tempers) + j
				l := launchers[(n+i)%len(launchers)]
				t.Run(l.name+"/"+temper.name+"/"+end.name, func(t *testing.T) {
					t.Parallel()
					endBox(t, e, l, temper, end)
				})
			}
		}
	})
	bystanders.untouched(t)
}

func endBox(t *testing.T, e *engine, l launcher, temper temper, end boxEnding) {
	mark := e.mark(t)
	s := startGateway(t).box(e, setup{Flags: quick()}, l, order{mark: mark, words: temper.words})
	if up := e.marked(t, mark); len(up) == 0 {
		t.Fatal("no container, so this proves nothing")
	}
	end.end(s)
	s.Gone()
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
	if left := e.networks(t, mark); len(left) > 0 {
		t.Errorf("networks left: %v", left)
	}
}

// The control: without the wrapper a container outlives its gateway, and all of its clients.
func TestBareContainersOutliveTheirClients(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	for _, name := range []string{"i", "d", "exec", "compose-up"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outliveClients(t, e, launch(name))
		})
	}
}

func outliveClients(t *testing.T, e *engine, l launcher) {
	t.Helper()
	mark := e.mark(t)
	s := startGateway(t).box(e, setup{Bare: true}, l, order{mark: mark, words: []string{"ignore-eof", "ignore-term"}})
	s.gw.Kill()
	s.EndAll()
	if !slices.ContainsFunc(e.marked(t, mark), func(b box) bool { return b.State == "running" }) {
		t.Error("the bare container ended, so the tethered one proves nothing")
	}
	e.removeNetworks(t, mark)
}

// The other control: with the mechanism off the wrapper ends the client, and its container stays.
func TestContainersOffLeaks(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	mark := e.mark(t)
	s := startGateway(t).box(e, setup{Flags: quick("--containers=off")}, launch("i"), order{mark: mark, words: []string{"ignore-eof", "ignore-term"}})
	s.gw.Kill()
	s.Gone()
	if left := e.marked(t, mark); len(left) != 1 || left[0].State != "running" {
		t.Errorf("containers left: %v, want one that runs, or the others prove nothing", left)
	}
}

// bystanders are containers that have nothing to do with the sessions which end.
type bystanders struct {
	e        *engine
	mark     string
	before   map[string]running
	images   []string
	neighbor *session
}

// newBystanders starts one container without a session and one of a session that goes on.
func newBystanders(t *testing.T, e *engine) *bystanders {
	t.Helper()
	b := &bystanders{e: e, mark: e.mark(t), before: map[string]running{}}
	image := e.image(t)
	label := markLabel + "=" + b.mark
	if o := e.docker(t, "run", "-d", "-i", "--network", "none", "--label", label, image, "boxed", "seconds=600"); o.code != 0 {
		t.Fatalf("start a bystander: %s", o.stderr)
	}
	if o := e.docker(t, "create", "--network", "none", "--label", label, image, "boxed"); o.code != 0 {
		t.Fatalf("create a bystander: %s", o.stderr)
	}
	b.neighbor = startGateway(t).box(e, setup{}, launch("i"), order{mark: b.mark, words: []string{"ignore-eof", "seconds=600"}})
	e.awaitRunning(t, b.mark, 2)
	for _, c := range e.marked(t, b.mark) {
		b.before[c.ID], _ = e.state(t, c.ID)
	}
	b.images = e.images(t)
	return b
}

func (b *bystanders) untouched(t *testing.T) {
	t.Helper()
	for id, before := range b.before {
		if now, _ := b.e.state(t, id); now != before {
			t.Errorf("a container of others was touched: %+v, and now %+v", before, now)
		}
	}
	if len(b.before) != 3 {
		t.Errorf("%d bystanders, want 3", len(b.before))
	}
	now := b.e.images(t)
	for _, id := range b.images {
		if !slices.Contains(now, id) {
			t.Errorf("image %s is gone", id)
		}
	}
	if !strings.Contains(b.neighbor.Ask(`{"id":7,"method":"ping"}`), `"id":7`) {
		t.Error("the other session's server was touched")
	}
	b.neighbor.gw.Kill()
	b.neighbor.Gone()
}

// fourRuns are four clients at once, below a shell that waits for them.
func fourRuns(t *testing.T, e *engine, mark string) []string {
	t.Helper()
	o := order{e: e, image: e.image(t), mark: mark, words: []string{"ignore-eof", "ignore-term"}}
	run := quote(o.dockerRun(t, "--rm"))
	return []string{"/bin/sh", "-c", strings.Repeat(run+" >/dev/null & ", 4) + "wait"}
}

// post makes a request by way of a session's socket, or of the engine's own, and expects the status.
func (e *engine) post(t *testing.T, host, path, body, want string) {
	t.Helper()
	if got := clientOf(t, host).raw(lastMessage("POST", "/v1.40"+path, body, "Content-Type: application/json")); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
		t.Fatalf("%s: %s: %s", e.kind, path, got)
	}
}

// describe is the body of a create: a container with the test's label, and what else is said of it.
func (e *engine) describe(t *testing.T, mark, more string) string {
	t.Helper()
	return fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},%s}`, e.image(t), markLabel, mark, more)
}

// An anonymous volume of another's container, which a container of the session used, outlives both containers. Those of
// the session's own containers go with them, unless a container has such volumes too.
func TestVolumesOfAnothersContainer(t *testing.T) {
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + e.host}})
		mark := e.mark(t)
		create := func(host, name, config string) {
			t.Helper()
			body := e.describe(t, mark, `"Cmd":["boxed"],"Volumes":{"/`+name+`":{}},"HostConfig":{"NetworkMode":"none"`+config+`}`)
			e.post(t, host, "/containers/create?name="+mark+name, body, "201")
		}
		before := e.volumes(t)
		create(e.host, "theirs", "")
		theirs := e.volumes(t)
		create(host, "ours", "")
		own := e.volumes(t)
		create(host, "borrowing", `,"VolumesFrom":["`+mark+`theirs"]`)
		if len(theirs) != len(before)+1 || len(own) != len(theirs)+1 {
			t.Fatalf("%s: volumes %v, %v, %v", e.kind, before, theirs, own)
		}
		e.do(t, http.MethodDelete, "/v1.40/containers/"+mark+"theirs?force=1", nil, nil)
		s.end()
		left := e.volumes(t)
		for _, v := range own {
			if slices.Contains(left, v) != slices.Contains(theirs, v) {
				t.Errorf("%s: of %v, theirs %v, are left %v", e.kind, own, theirs, left)
			}
		}
		for _, v := range left {
			if !slices.Contains(before, v) {
				e.do(t, http.MethodDelete, "/v1.40/volumes/"+v, nil, nil)
			}
		}
	}
}

// volumes lists the names of all volumes.
func (e *engine) volumes(t *testing.T) []string {
	t.Helper()
	var list struct{ Volumes []struct{ Name string } }
	e.do(t, http.MethodGet, "/v1.40/volumes", nil, &list)
	var out []string
	for _, v := range list.Volumes {
		out = append(out, v.Name)
	}
	return out
}

// A server in a container that is given the engine's own socket gets the session's. What it creates ends with the session.
// Podman does not tell whether it sees the session's socket. There the log warns, and what the server creates stays, as
// it does without us.
func TestContainerWithTheEnginesSocket(t *testing.T) {
	docker, podman := engineFor(t), podmanFor(t)
	t.Parallel()
	for _, e := range []*engine{docker, podman} {
		s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + e.host}})
		mark := e.mark(t)
		inner := lastMessage("POST", "/v1.40/containers/create?name="+mark+"inner", e.describe(t, mark, `"Cmd":["boxed"],"HostConfig":{"NetworkMode":"none"}`), "Content-Type: application/json")
		outer := e.describe(t, mark, fmt.Sprintf(`"Cmd":["asks","/x",%q],"HostConfig":{"NetworkMode":"none","Binds":[%q]}`, inner, e.sock+":/x"))
		e.post(t, host, "/containers/create?name="+mark+"outer", outer, "201")
		e.post(t, host, "/containers/"+mark+"outer/start", "", "204")
		testkit.Until(t, e.kind+": a container made by a container", func() bool { return len(e.marked(t, mark)) == 2 })
		s.end()
		known := e.kind != "podman"
		if left := e.marked(t, mark); (len(left) == 0) != known || s.warned("has the engine's own socket") == known {
			t.Errorf("%s: left: %v, warned: %v", e.kind, left, !known)
		}
	}
}

// A network of the session stays if somebody else's container is in it that does not run. Docker would remove the network,
// and the container could not be started any more.
func TestNetworkWithAnothersStoppedContainer(t *testing.T) {
	docker, podman := engineFor(t), podmanFor(t)
	t.Parallel()
	for _, e := range []*engine{docker, podman} {
		mark := e.mark(t)
		s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + e.host}})
		t.Cleanup(func() { e.removeNetworks(t, mark) })
		e.post(t, host, "/networks/create", fmt.Sprintf(`{"Name":%q,"Labels":{%q:%q}}`, mark, markLabel, mark), "201")
		e.post(t, e.host, "/containers/create?name="+mark, e.describe(t, mark, fmt.Sprintf(`"Cmd":["boxed","ignore-eof"],"HostConfig":{"NetworkMode":%q}`, mark)), "201")
		e.post(t, e.host, "/containers/"+mark+"/start", "", "204")
		e.post(t, e.host, "/containers/"+mark+"/stop?t=0", "", "204")
		s.endLeaving()
		if len(e.networks(t, mark)) != 1 {
			t.Fatalf("%s: the network is gone", e.kind)
		}
		e.post(t, e.host, "/containers/"+mark+"/start", "", "204")
	}
}

// Containers in every state end with their session. One that has its labels from one of a minute ago, as docker commit copies
// them, is somebody else's.
func TestContainersInEveryState(t *testing.T) {
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		mark := e.mark(t)
		s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + e.host}})
		docker := func(host string, args ...string) string {
			t.Helper()
			out, err := route{t: t, host: host}.command(args...).CombinedOutput()
			if err != nil {
				t.Fatalf("docker %q: %v: %s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		with := func(verb []string, words ...string) []string {
			return append(append(verb, "--network=none", "--label", markLabel+"="+mark, e.image(t)), words...)
		}
		stubborn, polite := []string{"boxed", "ignore-eof", "ignore-term"}, []string{"boxed", "ignore-eof"}
		for _, words := range [][]string{stubborn, polite} {
			docker(host, with([]string{"run", "-d", "--rm"}, words...)...)
			docker(host, "pause", docker(host, with([]string{"run", "-d"}, words...)...))
			docker(host, with([]string{"run", "-d", "--restart=always"}, words...)...)
		}
		docker(host, with([]string{"run", "-d", "--restart=always"}, "tool", "say", "", "", "1")...)
		docker(host, with([]string{"run", "-d", "--stop-signal=SIGKILL"}, polite...)...)
		docker(host, with([]string{"create"}, polite...)...)
		docker(host, "kill", docker(host, with([]string{"run", "-d"}, polite...)...))
		old := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)
		theirs := docker(e.host, with([]string{"run", "-d", "--label=mcp-tether.session=" + s.ID(), "--label=mcp-tether.created=" + old}, polite...)...)
		if n := len(e.marked(t, mark)); n != 11 {
			t.Fatalf("%s: %d containers, want 11", e.kind, n)
		}
		s.end()
		if left := e.marked(t, mark); len(left) != 1 || left[0].ID != theirs || left[0].State != "running" {
			t.Errorf("%s: left: %v, want the one of others", e.kind, left)
		}
	}
}
