package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// podman's engine speaks Docker's API and one of its own, on one socket.

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

// What differs from Docker is the engine, and not the session's end.
func TestPodmanContainersEndWithTheirSession(t *testing.T) {
	e := podmanFor(t)
	t.Parallel()
	own := launcher{"podman-i", func(t *testing.T, o order) []string { return podmanRun(t, o, "-i", "--rm") }}
	detached := launcher{"podman-d", func(t *testing.T, o order) []string {
		return before(podmanRun(t, o, "-d", "-i"), node(o.dir, "serve,ignore-eof"))
	}}
	pod := launcher{"podman-pod", podmanPod}
	for i, l := range []launcher{launch("i"), own, detached, pod, launch("d")} {
		temper, end := tempers[i%len(tempers)], boxEndings[i]
		t.Run(l.name+"/"+temper.name+"/"+end.name, func(t *testing.T) {
			t.Parallel()
			endBox(t, e, l, temper, end)
		})
	}
	// The control.
	t.Run("bare", func(t *testing.T) {
		t.Parallel()
		outliveClients(t, e, own)
	})
}

// alonePodman makes a host for podman without a service, imports the fixture, and runs a session. Then it lists what is left.
const alonePodman = `set -e
for d in /run /dev/shm /var/tmp /var/cache /var/lib/containers; do [ ! -d $d ] || mount -t tmpfs -o mode=1777 podman $d; done
c=/sys/fs/cgroup/unified/cgroup.controllers; [ ! -e $c ] || mount --bind /dev/null $c
mkdir -p /run/lock
printf '[engine]\nnetwork_backend = "cni"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' >/run/podman.conf
export CONTAINERS_CONF=/run/podman.conf HOME=/run
tar -C "$1" -c fixture | podman import -c 'ENTRYPOINT ["/fixture"]' - boxed:1 >/dev/null 2>&1
eval "${BEFORE-}"
out=$2; shift 2
"$@" || :
podman ps --all --format '{{.Names}} {{.Status}}' >"$out"`

// Podman without a service keeps a container by conmon, which is a member of the session. A container that has to be killed is
// removed all the same, so its name is free.
func TestPodmanWithoutASocket(t *testing.T) {
	testkit.Long(t)
	testkit.Lacks(t, testkit.Podman, !(os.Geteuid() == 0 && has("podman")), "root and podman")
	t.Parallel()
	s := startGateway(t).newSession()
	left := filepath.Join(s.Dir, "left")
	run := []string{"podman", "run", "-i", "--rm", "--name", "boxed", "--network", "none", "--ulimit", "nofile=256:256", "--ulimit", "nproc=4096:4096", "boxed:1", "boxed", "ignore-eof", "ignore-term"}
	argv := s.Wrap(quick(), run...)
	s.Spawn(setup{Bare: true}, append([]string{lookPath(t, "unshare"), "--mount", "/bin/sh", "-c", alonePodman, "sh", filepath.Dir(fixture), left}, argv...)...)
	s.waitBox()
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	s.WaitDead()
	if got := string(readFile(t, left)); got != "" {
		t.Errorf("left is %q", got)
	}
}

// A box that the user has made before goes on after a session that has started it, as those of toolbox and distrobox do. What
// the session has made does not.
func TestPodmanSparesAnOlderContainer(t *testing.T) {
	testkit.Long(t)
	testkit.Lacks(t, testkit.Podman, !(os.Geteuid() == 0 && has("podman")), "root and podman")
	t.Parallel()
	const box = "--network none --ulimit nofile=256:256 --ulimit nproc=4096:4096 boxed:1 boxed ignore-eof ignore-term"
	s := startGateway(t).newSession()
	left := filepath.Join(s.Dir, "left")
	server := "podman start mine && podman run -d --name own " + box + " && echo '\"ready\"' && exec cat"
	argv := s.Wrap(quick(), "/bin/sh", "-c", server)
	s.Spawn(setup{Bare: true, Env: []string{"BEFORE=podman create --name mine " + box}},
		append([]string{lookPath(t, "unshare"), "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", alonePodman, "sh", filepath.Dir(fixture), left}, argv...)...)
	for line := ""; !strings.Contains(line, `"ready"`); {
		line = s.Read()
	}
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	if got := string(readFile(t, left)); !strings.Contains(got, "mine Up ") || strings.Contains(got, "own Up ") {
		t.Errorf("left is %q", got)
	}
}
