package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// podman's engine speaks Docker's API and one of its own, on one socket.

// podmanLaunchers are docker's clients on podman's socket, and podman's own client.
func podmanLaunchers() []launcher {
	var out []launcher
	for _, name := range []string{"i", "it", "d", "init", "exec"} {
		out = append(out, launch(name))
	}
	return append(out,
		launcher{"podman-i", func(t *testing.T, o order) []string { return podmanRun(t, o, "-i", "--rm") }},
		launcher{"podman-d", func(t *testing.T, o order) []string {
			return before(podmanRun(t, o, "-d", "-i"), node(o.dir, "serve,ignore-eof"))
		}},
		launcher{"podman-pod", podmanPod},
	)
}

// podmanRun is the command line of podman's client, which asks its service by libpod's own API.
func podmanRun(t *testing.T, o order, how ...string) []string {
	t.Helper()
	argv := append([]string{lookPath(t, "podman"), "--remote", "run"}, how...)
	argv = append(append(argv, o.flags()...), o.image)
	return append(argv, o.boxed()...)
}

// podmanPod has its container in a pod without an infra container, whose image would have to be had.
func podmanPod(t *testing.T, o order) []string {
	t.Helper()
	pod := []string{lookPath(t, "podman"), "--remote", "pod", "create", "--infra=false", "--label", o.label(), "--name", o.mark}
	o.with = append(o.with, "--pod", o.mark)
	return before(pod, podmanRun(t, o, "-i", "--rm"))
}

func (e *engine) podman(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := exec.Command("podman", append([]string{"--remote", "--url", e.host}, args...)...)
	return finish(t, cmd)
}

func TestPodmanContainersEndWithTheirSession(t *testing.T) {
	e := podmanFor(t)
	t.Parallel()
	for i, l := range podmanLaunchers() {
		for j, end := range boxEndings {
			// The gateway's end, and one other in turn: what differs from Docker is the engine, not the session's end.
			if j > 0 && i%(len(boxEndings)-1) != j-1 {
				continue
			}
			temper := tempers[(i+j)%len(tempers)]
			t.Run(fmt.Sprintf("%s/%s/%s", l.name, temper.name, end.name), func(t *testing.T) {
				t.Parallel()
				endBox(t, e, l, temper, end)
			})
		}
	}
}

func TestBarePodmanContainersOutliveTheirClients(t *testing.T) {
	e := podmanFor(t)
	t.Parallel()
	for _, l := range podmanLaunchers() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			mark := e.mark(t)
			s := startGateway(t).box(e, setup{bare: true}, l, order{mark: mark, words: []string{"ignore-eof", "ignore-term"}})
			s.gw.kill()
			s.endAll()
			if !slices.ContainsFunc(e.marked(t, mark), func(b box) bool { return b.State == "running" }) {
				t.Error("the bare container ended, so the tethered one proves nothing")
			}
			e.podman(t, "pod", "rm", "-f", "-t", "0", mark)
		})
	}
}

// When a network is made anew, podman gives it the id of the last network of that name. A removal by name is no removal
// of a known id. The session's own network ends with it; the one that another made since is not touched.
func TestPodmanNetworkOfAnother(t *testing.T) {
	e := podmanFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	for _, who := range []string{"own", "other", "self"} {
		name := e.mark(t) + who
		t.Cleanup(func() { e.do(t, http.MethodDelete, "/v1.40/networks/"+name, nil, nil) })
		create := func(host string) {
			t.Helper()
			answer := clientOf(t, host).raw(lastMessage("POST", "/v4.0.0/libpod/networks/create", `{"name":"`+name+`","driver":"bridge"}`, "Content-Type: application/json"))
			if !strings.Contains(answer, name) {
				t.Fatalf("the engine says %s", answer)
			}
		}
		create(host)
		if who != "own" {
			clientOf(t, host).raw(lastMessage("DELETE", "/v4.0.0/libpod/networks/"+name, ""))
			create(map[string]string{"other": e.host, "self": host}[who])
		}
		t.Cleanup(func() {
			there := e.do(t, http.MethodGet, "/v1.40/networks/"+name, nil, nil) == http.StatusOK
			if there != (who == "other") {
				t.Errorf("%s: is there: %v", who, there)
			}
		})
	}
	s.end()
}

// A pod of the session goes with its infra container. One that another process has put a container into stays, and only
// the session's own container in it goes.
func TestPodmanPodWithAnothersContainer(t *testing.T) {
	e := podmanFor(t)
	e.importInfra(t)
	mark := e.mark(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	for _, pod := range []string{mark + "alone", mark + "shared"} {
		ask := func(path, body string) {
			t.Helper()
			if got := clientOf(t, host).raw(lastMessage("POST", path, body, "Content-Type: application/json")); !strings.HasPrefix(got, "HTTP/1.1 201") {
				t.Fatalf("%s: %s", path, got)
			}
		}
		ask("/v4.0.0/libpod/pods/create", fmt.Sprintf(`{"name":%q,"no_infra":false,"netns":{"nsmode":"none"}}`, pod))
		t.Cleanup(func() { e.podman(t, "pod", "rm", "-f", "-t", "0", pod) })
		ask("/v4.0.0/libpod/containers/create", fmt.Sprintf(`{"image":%q,"pod":%q,"name":%q,"labels":{%q:%q},"command":["boxed","ignore-eof"]}`, e.image(t), pod, pod+"-own", markLabel, mark))
	}
	if o := e.podman(t, "run", "-d", "--pod", mark+"shared", "--label", markLabel+"="+mark, e.image(t), "boxed", "ignore-eof"); o.code != 0 {
		t.Fatal(o.stderr)
	}
	s.endLeaving()
	pods := e.podman(t, "pod", "ps", "--format", "{{.Name}}", "--filter", "name="+mark).stdout
	if strings.TrimSpace(pods) != mark+"shared" || len(e.awaitRunning(t, mark, 1)) != 1 || len(e.marked(t, mark)) != 1 {
		t.Errorf("left are pods %q with %v", pods, e.marked(t, mark))
	}
}

// Podman refuses to remove a container in whose network namespace another's container is. The session says at once what
// stays. Where both are the session's, both go.
func TestPodmanContainerOnWhichAnothersDepends(t *testing.T) {
	e := podmanFor(t)
	for _, own := range []bool{false, true} {
		mark := e.mark(t)
		s, host := proxied(t, setup{flags: []string{engineTime}, env: []string{"DOCKER_HOST=" + e.host}})
		run := func(host, name, network string) {
			t.Helper()
			body := fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},"Cmd":["boxed","ignore-eof"],"HostConfig":{"NetworkMode":%q}}`, e.image(t), markLabel, mark, network)
			if got := clientOf(t, host).raw(lastMessage("POST", "/v1.40/containers/create?name="+mark+name, body, "Content-Type: application/json")); !strings.HasPrefix(got, "HTTP/1.1 201") {
				t.Fatal(got)
			}
			clientOf(t, host).raw(lastMessage("POST", "/v1.40/containers/"+mark+name+"/start", ""))
		}
		run(host, "base", "none")
		by := map[bool]string{false: e.host, true: host}[own]
		run(by, "dependent", "container:"+mark+"base")
		e.awaitRunning(t, mark, 2)
		began := time.Now()
		if own {
			s.end()
		} else {
			s.endLeaving()
		}
		up := slices.DeleteFunc(e.marked(t, mark), func(b box) bool { return b.State != "running" })
		if took := time.Since(began); len(up) != map[bool]int{false: 1, true: 0}[own] || took > 20*time.Second {
			t.Errorf("its own: %v: after %v there are %v", own, took, e.marked(t, mark))
		}
		for _, name := range []string{"dependent", "base"} {
			e.podman(t, "rm", "-f", "-t", "0", mark+name)
		}
	}
}

// alonePodman makes a host for podman without a service, imports the fixture, and runs a session. Then it lists what is left.
const alonePodman = `set -e
for d in /run /dev/shm /var/tmp /var/cache /var/lib/containers; do [ ! -d $d ] || mount -t tmpfs -o mode=1777 podman $d; done
c=/sys/fs/cgroup/unified/cgroup.controllers; [ ! -e $c ] || mount --bind /dev/null $c
mkdir -p /run/lock
printf '[engine]\nnetwork_backend = "cni"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' >/run/podman.conf
export CONTAINERS_CONF=/run/podman.conf HOME=/run
tar -C "$1" -c fixture | podman import -c 'ENTRYPOINT ["/fixture"]' - boxed:1 >/dev/null 2>&1
out=$2; shift 2
"$@" || :
podman ps --all --format '{{.Names}} {{.Status}}' >"$out"`

// Podman without a service keeps a container by conmon, which is a member of the session. A container that has to be killed is
// removed all the same, so its name is free. The control leaves
// conmon no time for that.
func TestPodmanWithoutASocket(t *testing.T) {
	testkit.Long(t)
	testkit.Need(t, os.Geteuid() == 0 && has("podman"), "root and podman")
	for _, c := range []struct{ kill, want string }{{"--kill-timeout=25s", ""}, {"--kill-timeout=1ms", "boxed Up"}} {
		s := startGateway(t).newSession()
		left := filepath.Join(s.dir, "left")
		run := []string{"podman", "run", "-i", "--rm", "--name", "boxed", "--network", "none", "--ulimit", "nofile=256:256", "--ulimit", "nproc=4096:4096", "boxed:1", "boxed", "ignore-eof", "ignore-term"}
		argv := s.wrap(quick(c.kill), run...)
		s.spawn(setup{bare: true}, append([]string{lookPath(t, "unshare"), "--mount", "/bin/sh", "-c", alonePodman, "sh", filepath.Dir(fixture), left}, argv...)...)
		s.waitBox()
		s.closeStdin()
		wantExit(t, s.wait(), "exit 0")
		s.waitDead()
		if got := string(readFile(t, left)); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: left is %q", c.kill, got)
		}
	}
}

// importInfra imports the image that scripts/engine has podman use for the first container of a pod: it rests.
func (e *engine) importInfra(t *testing.T) {
	t.Helper()
	e.importProgram(t, "mcp-tether-infra:1", `["/fixture", "tool", "rest"]`)
}
