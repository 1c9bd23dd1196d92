package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

const (
	podFile       = "../scripts/packaging/examples/pod.yaml"
	daemonSetFile = "../scripts/packaging/examples/daemonset.yaml"
	alertsFile    = "../scripts/packaging/examples/alerts.yaml"
)

// The manifests say nothing that the API does not know, the alert rules nothing that Prometheus does not. What reads them is a module of its own (manifests).
func TestManifestsAreUnderstood(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	reader := filepath.Join(t.TempDir(), "manifests")
	build := exec.Command("go", "-C", "manifests", "build", "-o", reader, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if o := finish(t, build); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	if o := finish(t, exec.Command(reader, podFile, daemonSetFile, alertsFile)); o.code != 0 || strings.Count(o.stdout, "Kind=") != 2 || strings.Count(o.stdout, "alert McpTether") != 4 {
		t.Errorf("%+v", o)
	}
	// The control.
	for _, file := range []string{podFile, daemonSetFile, alertsFile} {
		for name, change := range map[string][2]string{
			"unknown field": {"privileged", "privilege"}, "wrong type": {"runAsNonRoot: true", "runAsNonRoot: 1"}, "field twice": {"spec:\n", "kind: Pod\nspec:\n"},
			"other labels": {"labels: { app.kubernetes.io/name: mcp-tether-reap }\n    spec", "labels: {}\n    spec"},
			"unknown key":  {"for: 15m", "since: 15m"}, "no duration": {"for: 15m", "for: soon"}, "no expression": {"expr: mcp_tether_incomplete > 0", `expr: ""`},
		} {
			text, err := os.ReadFile(file)
			ok(t, err)
			bad := strings.Replace(string(text), change[0], change[1], 1)
			if bad == string(text) {
				continue // that is for the other one
			}
			broken := filepath.Join(t.TempDir(), "broken.yaml")
			ok(t, os.WriteFile(broken, []byte(bad), 0o600))
			if o := finish(t, exec.Command(reader, broken)); o.code != 1 {
				t.Errorf("%s: %s: %+v", file, name, o)
			}
		}
	}
}

// Podman plays the pod as the page shows it. The pod's user is in no file, and its root cannot be written.
func TestPodIsPlayed(t *testing.T) {
	e := podmanFor(t)
	e.importInfra(t)
	e.tetheredImage(t, "registry.example/everything-tethered:1", "boxed", "mcp", "ignore-eof")
	const pod, container = "everything", "everything-server"
	t.Cleanup(func() {
		e.podman(t, "pod", "rm", "-f", "-t", "0", pod)
		e.podman(t, "network", "rm", "podman-default-kube-network")
	})
	manifest, err := os.ReadFile(podFile)
	ok(t, err)
	if code := e.post(t, "/v4.0.0/libpod/play/kube?network=none", string(manifest)); code != http.StatusOK {
		t.Fatalf("podman says %d", code)
	}
	log := func() string { o := e.podman(t, "logs", container); return o.stdout + o.stderr }
	testkit.Until(t, "the server is up", func() bool { return strings.Contains(log(), `"ready"`) })
	// A server of its own, as by kubectl exec: it ends with its standard input.
	cmd := exec.Command("podman", "--remote", "--url", e.host, "exec", "-i", container, "/mcp-tether", "run", "--", "/server", "boxed", "mcp")
	cmd.Stdin = strings.NewReader(toolCall(1, "echo", "hello") + "\n")
	if o := finish(t, cmd); o.code != 0 || !strings.Contains(o.stdout, "hello") {
		t.Errorf("%+v", o)
	}
	if o := e.podman(t, "pod", "stop", "-t", "60", pod); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	if state, _ := e.state(t, container); state.Running || state.ExitCode != 0 {
		t.Errorf("%+v", state)
	}
	// One event that it has ended, and no warning: there was a place for the record.
	if said := log(); strings.Count(said, `"level":`) != 1 || !strings.Contains(said, `"message":"session ended"`) || !strings.Contains(said, `"cause":"signal"`) {
		t.Errorf("the log says\n%s", said)
	}
}

// post is a request with a text.
func (e *engine) post(t *testing.T, path, text string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://engine"+path, strings.NewReader(text))
	ok(t, err)
	resp, err := e.client.Do(req)
	ok(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	ok(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Logf("%s", b)
	}
	return resp.StatusCode
}

// containerOf runs a shell's script as a container of a DaemonSet has it, with the processes of the node. Mounts,
// cgroups and root directory are its own. The root directory has the system's programs and mcp-tether.
const containerOf = `set -e
root=$(mktemp -d)
mount -t tmpfs container "$root"
mkdir -p "$root/proc" "$root/dev" "$root/usr" "$root/var/lib/node_exporter"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev" # without /dev/null a shell starts nothing in the background, and its loop never waits
mount --bind /usr "$root/usr"
for dir in bin lib lib64; do
	if [ -L "/$dir" ]; then cp -P "/$dir" "$root/$dir"; elif [ -d "/$dir" ]; then mkdir "$root/$dir"; mount --bind "/$dir" "$root/$dir"; fi
done
mount -t tmpfs container "$root/usr/local"
mkdir "$root/usr/local/bin"
cp "$1" "$root/usr/local/bin/mcp-tether"
exec chroot "$root" /bin/sh -c "$2"`

// What the DaemonSet's container runs sweeps the node that it is on, and leaves metrics there.
func TestReapAsDaemonSet(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	testkit.Need(t, has("unshare") && has("nsenter"), "unshare and nsenter")
	text, err := os.ReadFile(daemonSetFile)
	ok(t, err)
	_, script, _ := strings.Cut(string(text), "            - |\n")
	script, _, found := strings.Cut(script, "          securityContext")
	if !found || !strings.Contains(script, "nsenter") {
		t.Fatalf("the script is %q", script)
	}
	const exporter = "/var/lib/node_exporter"
	ok(t, unix.Mount("node", "/var/lib", "tmpfs", 0, "mode=755"))
	ok(t, os.Mkdir(exporter, 0o755))
	script = strings.ReplaceAll(script, "--quiet", "--json") // a failure shows what each pass found
	script = expanded(t, script)
	s := dead(t)
	// The control: within its own namespaces it sees the node's processes, and finds nothing.
	_, without, _ := strings.Cut(script, "--net -- /proc/$$/root")
	before, _, _ := strings.Cut(script, "nsenter")
	alone := sweeper(t, before+without)
	inside := "/proc/" + strconv.Itoa(alone.Process.Pid) + "/root" + exporter
	testkit.Until(t, "a pass", func() bool { return endedBy(inside) != "" })
	if endedBy(inside) != "0" || len(s.members()) == 0 {
		t.Errorf("without nsenter %s were ended", endedBy(inside))
	}
	endSweeper(t, alone)
	c := sweeper(t, script)
	testkit.Until(t, "a pass", func() bool { return endedBy(exporter) != "" })
	if endedBy(exporter) != "1" {
		b, _ := os.ReadFile(exporter + "/mcp_tether.prom")
		t.Errorf("the metrics say\n%s", b)
	}
	s.swept()
	endSweeper(t, c)
}

// expanded is an argument of a container as the kubelet passes it on: $$ is $, and $(NAME) may be a variable's value. See
// "args" in the API reference of Kubernetes.
func expanded(t *testing.T, arg string) string {
	t.Helper()
	if strings.Contains(arg, "$(") {
		t.Errorf("Kubernetes may read a command substitution as a variable of its own:\n%s", arg)
	}
	return strings.ReplaceAll(arg, "$$", "$")
}

// sweeper starts a script as the container has it.
func sweeper(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("unshare", "--mount", "--cgroup", "--propagation=slave", "/bin/sh", "-c", containerOf, "sh", tether, script)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	ok(t, cmd.Start())
	return cmd
}

// endSweeper asks it to end, as the kubelet does.
func endSweeper(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	ok(t, cmd.Process.Signal(unix.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// endedBy is how many findings the last pass ended; "" if there was none.
func endedBy(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, "mcp_tether.prom"))
	_, value, _ := strings.Cut(string(b), "\nmcp_tether_ended ")
	value, _, _ = strings.Cut(value, "\n")
	return value
}
