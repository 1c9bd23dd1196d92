package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
)

// A container is no descendant of the client that asked for it: whatever is done to that client, the container stays.

// engineTime is what a session gives an engine at its end: on a busy machine one may stand still for seconds.
const engineTime = "--kill-timeout=25s"

// patient are the flags of a session with containers.
func patient(flags ...string) []string { return quick(append(flags, engineTime)...) }

// box starts a session whose server is in a container, and returns once that is ready.
func (g *gateway) box(e *engine, with setup, l launcher, o order) *session {
	g.t.Helper()
	s := g.newSession()
	o.e, o.dir, o.image = e, s.dir, e.image(g.t)
	with.env = append(with.env, boxEnviron(e, s)...)
	s.spawn(with, l.argv(g.t, o)...)
	s.waitBox()
	// The server may speak before the engine says that it runs.
	e.awaitRunning(g.t, o.mark, 1)
	return s
}

// boxEnviron is what the clients of a session are told. Nothing they write goes to the user's home.
func boxEnviron(e *engine, s *session) []string {
	return append(e.environ(), "HOME="+s.dir, "npm_config_update_notifier=false", "PYTHONDONTWRITEBYTECODE=1")
}

// waitBox waits for the line that says ready. Its pid is one of the container's.
func (s *session) waitBox() {
	s.t.Helper()
	if line := s.read(); !strings.Contains(line, `"ready"`) {
		s.t.Fatalf("instead of ready the server said %q", line)
	}
	s.ids = s.records()
}

// serverPID is what the supervisor started: npm, a shell, or a client of the engine.
func (s *session) serverPID() int {
	s.t.Helper()
	s.waitRecord()
	pid := s.record(s.id()).Server.PID
	if pid < 2 {
		s.t.Fatal("no server in the record")
	}
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
	{"gateway", func(s *session) { s.gw.kill() }},
	{"wrapper", func(s *session) { s.signal(syscall.SIGTERM) }},
	{"anchor", func(s *session) { s.signal(syscall.SIGKILL) }},
	{"supervisor", func(s *session) { _ = syscall.Kill(s.supervisor(), syscall.SIGKILL) }},
	{"launcher", func(s *session) { _ = syscall.Kill(s.serverPID(), syscall.SIGKILL) }},
}

// boxCases visits all tempers and endings with the plain client. With every other launcher it visits all endings, with
// one temper or the other.
func boxCases(visit func(launcher, temper, boxEnding)) {
	for i, l := range launchers {
		for j, end := range boxEndings {
			for k, temper := range tempers {
				if l.name == "i" || (i+j)%len(tempers) == k {
					visit(l, temper, end)
				}
			}
		}
	}
}

func TestContainersEndWithTheirSession(t *testing.T) {
	e := engineFor(t)
	bystanders := newBystanders(t, e)
	t.Run("all", func(t *testing.T) {
		boxCases(func(l launcher, temper temper, end boxEnding) {
			t.Run(l.name+"/"+temper.name+"/"+end.name, func(t *testing.T) {
				t.Parallel()
				endBox(t, e, l, temper, end)
			})
		})
	})
	bystanders.untouched(t)
}

func endBox(t *testing.T, e *engine, l launcher, temper temper, end boxEnding) {
	mark := e.mark(t)
	s := startGateway(t).box(e, setup{flags: patient()}, l, order{mark: mark, words: temper.words})
	if up := e.marked(t, mark); len(up) == 0 {
		t.Fatal("no container, so this proves nothing")
	}
	end.end(s)
	s.gone()
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
	if left := e.networks(t, mark); len(left) > 0 {
		t.Errorf("networks left: %v", left)
	}
}

// The control: without the wrapper the container of each launcher outlives its gateway, and all of its clients.
func TestBareContainersOutliveTheirClients(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	for _, l := range launchers {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			mark := e.mark(t)
			stubborn := order{mark: mark, words: []string{"ignore-eof", "ignore-term"}}
			s := startGateway(t).box(e, setup{bare: true}, l, stubborn)
			s.gw.kill()
			s.endAll()
			if !slices.ContainsFunc(e.marked(t, mark), func(b box) bool { return b.State == "running" }) {
				t.Error("the bare container ended, so the tethered one proves nothing")
			}
			e.removeNetworks(t, mark)
		})
	}
}

// The other control: with the mechanism off the wrapper ends the clients, and their container stays.
func TestContainersOffLeaks(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	for _, end := range boxEndings {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			mark := e.mark(t)
			stubborn := order{mark: mark, words: []string{"ignore-eof", "ignore-term"}}
			s := startGateway(t).box(e, setup{flags: patient("--containers=off")}, launch("i"), stubborn)
			end.end(s)
			s.gone()
			if left := e.marked(t, mark); len(left) != 1 || left[0].State != "running" {
				t.Errorf("containers left: %v, want one that runs, or the others prove nothing", left)
			}
		})
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
	if !strings.Contains(b.neighbor.ask(`{"id":7,"method":"ping"}`), `"id":7`) {
		t.Error("the other session's server was touched")
	}
	b.neighbor.gw.kill()
	b.neighbor.gone()
}

// Four containers of one session, by four clients at once.
func TestFourContainersEndWithTheirSession(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	for _, end := range boxEndings {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			mark := e.mark(t)
			s := startGateway(t).four(t, e, setup{flags: patient()}, mark)
			end.end(s)
			s.gone()
			if left := e.marked(t, mark); len(left) > 0 {
				t.Errorf("containers left: %v", left)
			}
		})
	}
}

// four starts a session with four containers at once and returns when all run.
func (g *gateway) four(t *testing.T, e *engine, with setup, mark string) *session {
	t.Helper()
	s := g.newSession()
	with.env = append(with.env, boxEnviron(e, s)...)
	s.spawn(with, fourRuns(t, e, mark)...)
	e.awaitRunning(t, mark, 4)
	s.waitRecord()
	return s
}

// fourRuns are four clients at once, below a shell that waits for them.
func fourRuns(t *testing.T, e *engine, mark string) []string {
	t.Helper()
	o := order{e: e, image: e.image(t), mark: mark, words: []string{"ignore-eof", "ignore-term"}}
	run := quote(o.dockerRun(t, "--rm"))
	return []string{"/bin/sh", "-c", strings.Repeat(run+" >/dev/null & ", 4) + "wait"}
}

// The gateway is the official client, the launcher npm, and the container's server speaks MCP.
func TestRealClientOfServerInContainerLeavesNothing(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	for _, end := range realEndings {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			mark, dir := e.mark(t), realDir(t)
			s := &session{t: t, log: filepath.Join(dir, "log.json")}
			server := boxedServer(t, e, mark, dir, s.wrap(nil))
			client := startSDKClient(t, dir, server)
			if up := e.marked(t, mark); len(up) != 1 {
				t.Fatalf("%d containers run, want 1", len(up))
			}
			end.end(client)
			if left := awaitKin(t, client.family, testkit.Patience); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if left := e.marked(t, mark); len(left) > 0 {
				t.Errorf("containers left: %v", left)
			}
			s.endedWhole(end.causes...)
			checkNoRecords(t, dir)
		})
	}
}

// The control: the official client closes its server in its own way, and the container stays.
func TestRealClientOfServerInContainerLeaksAlone(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	for _, end := range realEndings {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			mark, dir := e.mark(t), realDir(t)
			client := startSDKClient(t, dir, boxedServer(t, e, mark, dir, nil))
			e.awaitRunning(t, mark, 1) // It may have answered before the engine says so.
			end.end(client)
			client.endAll()
			if left := e.marked(t, mark); len(left) != 1 || left[0].State != "running" {
				t.Errorf("containers left: %v, want one that runs, or the tethered one proves nothing", left)
			}
		})
	}
}

// boxedServer is the entry of a gateway's configuration.
func boxedServer(t *testing.T, e *engine, mark, dir string, wrapper []string) realServer {
	t.Helper()
	o := order{e: e, dir: dir, image: e.image(t), mark: mark, words: []string{"mcp", "ignore-eof", "ignore-term"}}
	argv := slices.Concat(wrapper, throughNPM(t, o))
	env := realEnv(dir)
	for _, pair := range append(e.environ(), "PATH="+os.Getenv("PATH")) {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return realServer{Command: argv[0], Args: argv[1:], Env: env, Tool: "echo", Arguments: map[string]string{"message": "hello"}}
}

// An anonymous volume of another's container, which a container of the session used, outlives both containers. Those of
// the session's own containers go with them, unless a container has such volumes too.
func TestVolumesOfAnothersContainer(t *testing.T) {
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
		mark := e.mark(t)
		create := func(host, name, config string) {
			t.Helper()
			body := fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},"Cmd":["boxed"],"Volumes":{"/%s":{}},"HostConfig":{"NetworkMode":"none"%s}}`,
				e.image(t), markLabel, mark, name, config)
			answer := clientOf(t, host).raw(lastMessage("POST", "/v1.40/containers/create?name="+mark+name, body, "Content-Type: application/json"))
			if !strings.Contains(answer, " 201 ") {
				t.Fatalf("%s: %s", name, answer)
			}
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

// A session that "creates" a volume which is there already gets the answer of a create. It stays somebody else's, with all
// ways in which a container of the session can have it, and whether it has a name or a made-up one.
func TestVolumeThatWasThereBefore(t *testing.T) {
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		for _, name := range []string{"data", ""} {
			s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
			mark := e.mark(t)
			ask := func(host, path, body, want string) {
				t.Helper()
				if got := clientOf(t, host).raw(lastMessage("POST", path, body, "Content-Type: application/json")); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
					t.Fatalf("%s: %s: %s", e.kind, path, got)
				}
			}
			box := func(host, name, config string) {
				t.Helper()
				body := fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},"Cmd":["boxed","ignore-eof"]%s}`, e.image(t), markLabel, mark, config)
				ask(host, "/v1.40/containers/create?name="+mark+name, body, "201")
			}
			before, theirs := e.volumes(t), mark+name
			if name != "" {
				ask(e.host, "/v1.40/volumes/create", `{"Name":"`+theirs+`"}`, "201")
			} else {
				box(e.host, "theirs", `,"Volumes":{"/data":{}}`)
				theirs = newIn(e.volumes(t), before)[0]
			}
			before = append(before, theirs)
			ask(host, "/v1.40/volumes/create", `{"Name":"`+theirs+`"}`, "201")
			box(host, "bound", `,"Volumes":{"/own":{}},"HostConfig":{"NetworkMode":"none","Binds":["`+theirs+`:/data"]}`)
			box(host, "mounted", `,"HostConfig":{"NetworkMode":"none","Mounts":[{"Type":"volume","Source":"`+theirs+`","Target":"/data"}]}`)
			box(host, "own", `,"Volumes":{"/own":{}},"HostConfig":{"NetworkMode":"none"}`)
			for _, name := range []string{"bound", "mounted", "own"} {
				ask(host, "/v1.40/containers/"+mark+name+"/start", "", "204")
			}
			e.do(t, http.MethodDelete, "/v1.40/containers/"+mark+"theirs?force=1", nil, nil)
			had := newIn(e.volumes(t), before)
			s.end()
			left := e.volumes(t)
			if !slices.Contains(left, theirs) {
				t.Errorf("%s: volume %q of another is gone", e.kind, theirs)
			}
			// The control: the session's own go, but for one that a container has beside a made-up name.
			kept := len(newIn(left, before))
			if want := map[string]int{"data": 0, "": 1}[name]; len(had) != 2 || kept != want {
				t.Errorf("%s: of the session's own volumes %v, %d are left, want %d", e.kind, had, kept, want)
			}
			for _, v := range append(newIn(left, before), theirs) {
				e.do(t, http.MethodDelete, "/v1.40/volumes/"+v, nil, nil)
			}
		}
	}
}

// newIn returns what is in one list and not in an earlier one.
func newIn(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(known, s) })
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

// The classic builder makes a container for each step, without a label of ours, and leaves the container of a step that
// fails.
func TestBuildThatFailsLeavesNoContainer(t *testing.T) {
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	for _, rm := range []string{"--rm=true", "--rm=false"} {
		for _, h := range []string{host, e.host} {
			before := e.marked(t, "")
			cmd := e.command("build", rm, "--network=none", "-t", "none:none", "-")
			cmd.Env = append(cmd.Env, "DOCKER_HOST="+h, "DOCKER_BUILDKIT=0")
			cmd.Stdin = strings.NewReader(fmt.Sprintf("FROM %s\nRUN [\"/fixture\", \"tool\", \"nonsense\"]\n", e.image(t)))
			if o := finish(t, cmd); o.code == 0 || !strings.Contains(o.stdout+o.stderr, "non-zero code") {
				t.Fatalf("the build says %+v", o)
			}
			left := slices.DeleteFunc(e.marked(t, ""), func(b box) bool {
				// Other packages use the engine at the same time.
				return !strings.Contains(b.Command, "nonsense") || slices.ContainsFunc(before, func(old box) bool { return old.ID == b.ID })
			})
			e.remove(t, left...)
			if h == host && len(left) != 0 {
				t.Errorf("%s: left: %v", rm, left)
			}
			// The control: without us, one stays.
			if h == e.host && len(left) != 1 {
				t.Errorf("%s: the bare build left %v", rm, left)
			}
		}
	}
	s.end()
}

// A server in a container that is given the engine's own socket, by whatever name, gets the session's socket. What it
// creates ends with the session. The same holds for a user who may open the engine's socket as a member of its group.
// Podman does not tell whether it sees the session's socket. There the log warns, and what the server creates stays, as
// it does without us.
func TestContainerWithTheEnginesSocket(t *testing.T) {
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		st, err := os.Stat(e.sock)
		ok(t, err)
		group := fmt.Sprint(st.Sys().(*syscall.Stat_t).Gid)
		link := filepath.Join(t.TempDir(), "docker.sock")
		ok(t, os.Symlink(e.sock, link))
		users := map[string]string{e.sock: "0:0", link: "4321:" + group}
		if e.kind == "podman" { // whose socket is its owner's alone
			delete(users, link)
		}
		for source, user := range users {
			s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
			mark := e.mark(t)
			label := fmt.Sprintf(`"Image":%q,"Labels":{%q:%q}`, e.image(t), markLabel, mark)
			inner := lastMessage("POST", "/v1.40/containers/create?name="+mark+"inner", `{`+label+`,"Cmd":["boxed"],"HostConfig":{"NetworkMode":"none"}}`, "Content-Type: application/json")
			outer := fmt.Sprintf(`{%s,"User":%q,"Cmd":["asks","/x",%q],"HostConfig":{"NetworkMode":"none","Binds":[%q]}}`, label, user, inner, source+":/x")
			if got := clientOf(t, host).raw(lastMessage("POST", "/v1.40/containers/create?name="+mark+"outer", outer, "Content-Type: application/json")); !strings.Contains(got, " 201 ") {
				t.Fatalf("%s: %s", e.kind, got)
			}
			clientOf(t, host).raw(lastMessage("POST", "/v1.40/containers/"+mark+"outer/start", ""))
			testkit.Until(t, e.kind+": a container made by a container", func() bool { return len(e.marked(t, mark)) == 2 })
			s.end()
			known := e.kind != "podman"
			if left := e.marked(t, mark); (len(left) == 0) != known || s.warned("has the engine's own socket") == known {
				t.Errorf("%s, %s %s: left: %v, warned: %v", e.kind, source, user, left, !known)
			}
		}
	}
}

// A session may run in a container that has the engine's socket. There the engine does not see the session's socket. A
// mount of what its DOCKER_HOST names is then a mount of the engine's own socket, as without us.
func TestSocketThatTheEngineDoesNotSee(t *testing.T) {
	e := engineFor(t)
	testkit.Need(t, os.Geteuid() == 0, "root, for a mount namespace")
	mark := e.mark(t)
	s := startGateway(t).newSession()
	run := order{e: e, image: e.image(t), mark: mark, with: []string{"--entrypoint=/fixture"}}.dockerRun(t, "--rm", "--volume=SOCKET:/x")
	run = append(run[:len(run)-1], "asks", "/x", lastMessage("GET", "/_ping", ""))
	server := strings.Replace(quote(run), "SOCKET:/x'", `'"${DOCKER_HOST#unix://}":/x`, 1)
	argv := s.wrap(patient(), "/bin/sh", "-c", "exec "+server)
	s.spawn(setup{bare: true, env: boxEnviron(e, s)}, append([]string{lookPath(t, "unshare"), "--mount", "/bin/sh", "-c",
		`mount -t tmpfs session "$XDG_RUNTIME_DIR" && exec "$@"`, "sh"}, argv...)...)
	if line := s.read(); !strings.Contains(line, " 200 OK") {
		t.Errorf("the engine says %q: %s", line, readFile(t, s.stderr))
	}
	if !s.warned("has the engine's own socket") {
		t.Error("no warning")
	}
	s.gw.kill()
	s.gone()
	// Docker makes a directory of a source that is not there.
	if made, _ := os.ReadDir(s.runtime); len(made) > 0 || len(e.marked(t, mark)) > 0 {
		t.Errorf("left: %v, %v", made, e.marked(t, mark))
	}
}

// A network of the session stays if somebody else's container is in it that does not run, or never did. Docker would remove
// the network, and the container could not be started any more.
func TestNetworkWithAnothersStoppedContainer(t *testing.T) {
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		for _, ran := range []bool{false, true} {
			mark := e.mark(t)
			ask := func(host, path, body, want string) {
				t.Helper()
				if got := clientOf(t, host).raw(lastMessage("POST", path, body, "Content-Type: application/json")); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
					t.Fatalf("%s: %s: %s", e.kind, path, got)
				}
			}
			s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
			label := fmt.Sprintf(`"Labels":{%q:%q}`, markLabel, mark)
			t.Cleanup(func() { e.removeNetworks(t, mark) })
			ask(host, "/v1.40/networks/create", `{"Name":"`+mark+`",`+label+`}`, "201")
			ask(e.host, "/v1.40/containers/create?name="+mark, fmt.Sprintf(`{"Image":%q,%s,"Cmd":["boxed","ignore-eof"],"HostConfig":{"NetworkMode":%q}}`, e.image(t), label, mark), "201")
			if ran {
				ask(e.host, "/v1.40/containers/"+mark+"/start", "", "204")
				ask(e.host, "/v1.40/containers/"+mark+"/stop?t=0", "", "204")
			}
			s.endLeaving()
			if len(e.networks(t, mark)) != 1 {
				t.Fatalf("%s: it ran before: %v: the network is gone", e.kind, ran)
			}
			ask(e.host, "/v1.40/containers/"+mark+"/start", "", "204")
		}
	}
}

// A network of the session stays while somebody else's container is in it, also if the session has connected it. That
// container stays as it is.
func TestNetworkWithAnothersContainer(t *testing.T) {
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		mark := e.mark(t)
		ask := func(host, path, body, want string) {
			t.Helper()
			if got := clientOf(t, host).raw(lastMessage("POST", path, body, "Content-Type: application/json")); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
				t.Fatalf("%s: %s: %s", e.kind, path, got)
			}
		}
		s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
		label := fmt.Sprintf(`"Labels":{%q:%q}`, markLabel, mark)
		t.Cleanup(func() { e.removeNetworks(t, mark) })
		ask(e.host, "/v1.40/networks/create", `{"Name":"`+mark+`theirs",`+label+`}`, "201")
		ask(e.host, "/v1.40/containers/create?name="+mark, fmt.Sprintf(`{"Image":%q,%s,"Cmd":["boxed","ignore-eof"],"HostConfig":{"NetworkMode":%q}}`, e.image(t), label, mark+"theirs"), "201")
		ask(e.host, "/v1.40/containers/"+mark+"/start", "", "204")
		ask(host, "/v1.40/networks/create", `{"Name":"`+mark+`ours",`+label+`}`, "201")
		ask(host, "/v1.40/networks/"+mark+"ours/connect", `{"Container":"`+mark+`"}`, "200")
		if len(e.networks(t, mark)) != 2 {
			t.Fatalf("%s: networks: %v", e.kind, e.networks(t, mark))
		}
		s.endLeaving()
		if got := e.networks(t, mark); len(got) != 2 || len(e.awaitRunning(t, mark, 1)) != 1 {
			t.Errorf("%s: left: %v and %v", e.kind, got, e.marked(t, mark))
		}
	}
}
